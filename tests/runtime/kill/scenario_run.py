"""A run of a scenario: engines and operators on one file are killed at drawn moments and begun again until all is done; then it is checked."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import mkfifo
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perdure import Compressed, Encrypted
from perdure.core.paths import Key
from perdure.stores.encryption import parse_keys
from perdure.sync_client import Client
from tests.runtime.kill.effect_log import EffectLog
from tests.runtime.kill.fork_server import READY, TOLD, WANTED
from tests.runtime.kill.scenario import Scenario, Size
from tests.runtime.kill.soundness import SuccessMonitor, open_heads
from tests.runtime.processes import History, ProcessDirectory, RealProcess, until

AIMED, AIM_S = 0.5, 0.1
"""How often a kill waits for an engine to be in the middle of a step, and how long at most."""

STARTING = 0.1
"""How often an engine may be killed that has not come to work yet."""

CLERK_LIVES_S = 0.0, 0.12
LOOK_EVERY = 4
"""After how many kills the witness looks."""

END_S = 90.0


class Processes:
    """Those that a fork server has forked, by number."""

    def __init__(self, stage: ProcessDirectory, name: str, url: str) -> None:
        self._url = url
        for pipe in (WANTED, TOLD):
            mkfifo(stage.directory / pipe)
        self.fork_server: RealProcess = stage.begin("tests.runtime.kill.fork_server", name)
        self.fork_server.until_said("ready")
        self._wanted = (stage.directory / WANTED).open("w")
        self._told = (stage.directory / TOLD).open()
        self._lock = threading.Lock()
        self._over = dict[int, int]()

    def close(self) -> None:
        """Stop the fork server, and with it every process that it has forked."""
        self.fork_server.destroy()
        self._told.close()
        try:
            self._wanted.close()
        except BrokenPipeError:
            return

    def engine(self, deploy: int, environment: dict[str, str], url: str = "") -> int:
        """Begin an engine; of no deploy, one that serves no queues."""
        number: int = self._ask(fork="engine", url=url or self._url, deploy=deploy, environment=environment)
        return number

    def operator(self, name: str, arguments: list[Any], environment: dict[str, str]) -> int:
        """Begin an operator."""
        number: int = self._ask(fork=name, url=self._url, arguments=arguments, environment=environment)
        return number

    def kill(self, pid: int) -> int:
        """Kill it; return its exit code, which is another one if it had ended before."""
        if pid not in self._over:
            self._over[pid] = self._ask(send=int(signal.SIGKILL), to=pid)
        return self._over[pid]

    def stop(self, pid: int) -> None:
        """Tell it to stop in good order."""
        self._ask(send=int(signal.SIGTERM), to=pid)

    def code(self, pid: int) -> int | None:
        """Its exit code; None if it lives."""
        if pid not in self._over and (code := self._ask(poll=pid)) is not None:
            self._over[pid] = code
        return self._over.get(pid)

    def _ask(self, **wanted: Any) -> Any:
        with self._lock:
            self._wanted.write(json.dumps(wanted) + "\n")
            self._wanted.flush()
            return json.loads(self._told.readline())


class ScenarioRun:
    """See the module. What a scenario may want of it is public."""

    def __init__(self, directory: Path, name: str, scenario: Scenario, size: Size, seed: int) -> None:
        self.scenario, self.size, self.seed = scenario, size, seed
        self.draw = random.Random(f"{seed}:drive")
        self.stage = ProcessDirectory(directory)
        self.ledger = EffectLog(directory)
        self.witness = SuccessMonitor(self.stage, scenario)
        self.deploy = 1
        self.deploys: tuple[int, ...] = ()
        self.environment = dict[str, str]()
        self.killed = dict[int, float]()
        self.operators_killed = 0
        self.processes = Processes(self.stage, name, self.stage.url)
        self._fate = random.Random(f"{seed}:kills")
        self._engines = list[int]()
        self._calm = threading.Event()
        self._errors = list[BaseException]()
        self._thread = threading.Thread(target=self._rage, daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._calm.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.processes.close()
        self.stage.__exit__(kind)

    @property
    def url(self) -> str:
        """Where the executions are."""
        return self.stage.url

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client that is not killed."""
        keys = self.environment.get("PERDURE_ENCRYPTION_KEYS")
        with Client(self.url, codec=None if keys is None else Encrypted(parse_keys(keys), Compressed(), required=True)) as client:
            yield client

    def key(self, workflow: Any, id: str) -> Key:
        """The key of an execution."""
        return Key("default", workflow.code.name, id)

    # engines

    def begin(self) -> None:
        """Have engines work, and be killed."""
        self._engines = [self._new(place) for place in range(self.scenario.engines)]
        until(lambda: self._ready(self._engines[0]), "an engine is ready")
        self._thread.start()

    def replace_all(self) -> None:
        """Kill all engines; others take their places."""
        with self._steady():
            for place in range(len(self._engines)):
                self._replace(place)

    def _new(self, place: int) -> int:
        deploy = self.deploys[place % len(self.deploys)] if self.deploys else self.deploy
        return self.processes.engine(deploy, self.environment)

    def _replace(self, place: int) -> None:
        pid = self._engines[place]
        code = self.processes.code(pid)
        assert code is None, f"an engine ended by itself, with {code}: {self.processes.fork_server.complained}"
        self.killed[pid] = time.monotonic()
        self.processes.kill(pid)
        self._engines[place] = self._new(place)

    def _ready(self, pid: int) -> bool:
        file = self.stage.directory / READY
        return file.exists() and str(pid) in file.read_text().split()

    _turn = threading.Lock()

    @contextmanager
    def _steady(self) -> Iterator[None]:
        with self._turn:
            yield

    def _rage(self) -> None:
        ledger, draw = EffectLog(self.stage.directory), self._fate
        try:
            while len(self.killed) < self.size.kills and not self._calm.is_set():
                time.sleep(draw.uniform(*self.scenario.every_s))
                with self._steady():
                    place = draw.randrange(len(self._engines))
                    pid = self._engines[place]
                    if draw.random() > STARTING:
                        until(lambda pid=pid: self._ready(pid) or self.processes.code(pid) is not None, "an engine is ready")  # type: ignore[misc]  # mypy infers no lambda with a default
                    ends_s = time.monotonic() + (AIM_S if draw.random() < AIMED else 0.0)
                    while time.monotonic() < ends_s and not ledger.is_busy(pid):
                        time.sleep(0.002)
                    self._replace(place)
                if len(self.killed) % LOOK_EVERY == 0:
                    self.witness.look()
        except BaseException as error:
            self._errors.append(error)

    def _raise(self) -> None:
        if self._errors:
            raise self._errors[0]

    def numbers(self) -> Iterator[int]:
        """The numbers of the executions, handed out one by one while engines are being killed, the last but shortly before the last kill."""
        for number in range(self.size.executions):
            due = self.size.kills * number // self.size.executions
            self.until(lambda due=due: len(self.killed) >= due or not self._thread.is_alive(), "engines are killed")  # type: ignore[misc]  # mypy infers no lambda with a default
            yield number

    # operators

    def operator(self, name: str, *arguments: Any, kills: int = 3, after: Callable[[], None] = lambda: None) -> int:
        """Have an operator do its work, killed so often at drawn moments and begun again; look `after` each. Return how often it really was killed."""
        killed, draw = 0, random.Random(f"{self.seed}:{name}:{arguments}")
        for _ in range(kills):
            pid = self.processes.operator(name, list(arguments), self.environment)
            time.sleep(draw.uniform(*CLERK_LIVES_S))
            code = self.processes.kill(pid)
            assert code in (0, -signal.SIGKILL), f"{name} ended with {code}: {self.processes.fork_server.complained}"
            killed += code != 0
            after()
        pid = self.processes.operator(name, list(arguments), self.environment)
        until(lambda: self.processes.code(pid) is not None, f"{name} has done its work", END_S)
        assert self.processes.code(pid) == 0, f"{name}: {self.processes.fork_server.complained}"
        self.operators_killed += killed
        return killed

    def operators(self, *wanted: tuple[Any, ...], kills: int = 3) -> None:
        """Have several operators do their work at once."""

        def work(one: tuple[Any, ...]) -> None:
            try:
                self.operator(*one, kills=kills)
            except BaseException as error:
                self._errors.append(error)

        threads = [threading.Thread(target=work, args=(one,)) for one in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._raise()

    # the end

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for something, as long as nothing has gone wrong with the kills."""

        def held() -> object:
            self._raise()
            return holds()

        until(held, what, END_S, 0.02)

    def finish(self) -> dict[Key, History]:
        """Let everything end, and stop; hold it to what must be of every scenario, and return what is remembered."""
        self.until(lambda: open_heads(self.stage.file) == 0, "everything has ended")
        self._calm.set()
        self._thread.join()
        self._raise()
        for pid in self._engines:
            until(lambda pid=pid: self._ready(pid), "an engine is ready")  # type: ignore[misc]  # mypy infers no lambda with a default
            self.processes.stop(pid)
        for pid in self._engines:
            until(lambda pid=pid: self.processes.code(pid) is not None, "an engine stops")  # type: ignore[misc]  # mypy infers no lambda with a default
            assert self.processes.code(pid) == 0, self.processes.fork_server.complained
        histories = self.witness.testify(self.ledger.read())
        self.verify()
        return histories

    def verify(self) -> None:
        """What `perdure verify` says: nothing."""
        command = [sys.executable, "-m", "perdure.cli", "verify", "--json"]
        done = subprocess.run(command, env=self._verifying(), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        assert json.loads(done.stdout) == [], done.stdout

    def _verifying(self) -> dict[str, str]:
        import os

        return {**os.environ, "PERDURE_DB": self.url, **self.environment}
