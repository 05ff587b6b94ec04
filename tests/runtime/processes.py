"""Real processes for tests of many: each begins a session of its own in one directory, and nothing of them outlives the test.

What they say goes to files, so that nobody has to listen. What their steps do goes to the file `EFFECTS`, a line for each event,
on the disk before the step goes on; that is compared with what the logs remember.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self
from uuid import uuid4

import msgspec

from perdure.core import log_format
from perdure.core.events import Event, OpenedEvent
from perdure.core.operations import CallOperation
from perdure.core.paths import Key, idempotency_key
from perdure.core.paths import Path as Place
from perdure.stores.configured_store import open_store, open_store_to_copy
from perdure.stores.encoded_store import EncodedStore
from perdure.stores.payload_codec import PayloadCodec
from perdure.stores.protocol import Head, HeadFilter, Store

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0
"""How long something may take on a slow machine that should take no time."""

ALL_HEADS = HeadFilter(limit=1_000_000)
UNSOUND = ("Traceback", "defect of Perdure", "Exception ignored")
"""What no process says, however it is treated."""

EFFECTS = "effects"
MARK = "PERDURE_TEST_STAGE"
"""The variable by which all processes of one stage are known."""


class RecordedEffect(msgspec.Struct, frozen=True):
    """Something that a step did: `began`, `failed` or `ended`, under its idempotency key, in which try and process, when on the monotonic clock,
    and what it was about, if that was said."""

    event: str
    key: str
    attempt: int
    process: int
    at_s: float
    about: Any = None


class RealProcess:
    """A Python process that runs the module `module` in `directory`, as the leader of a session of its own."""

    def __init__(self, directory: Path, number: int, module: str, *arguments: object, **environment: str) -> None:
        self.name = f"{number}-{module.rpartition('.')[2]}"
        self._out, self._errors = directory / f"{self.name}.out", directory / f"{self.name}.err"
        self.began_s = time.monotonic()
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.runtime.tied_process", module, *map(str, arguments)],
                cwd=directory,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its id, which is also that of its session."""
        return self.process.pid

    @property
    def said(self) -> str:
        """What it has said so far."""
        return self._out.read_text()

    @property
    def complained(self) -> str:
        """What it has said of errors and warnings so far."""
        return self._errors.read_text()

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def until_said(self, text: str) -> None:
        """Wait until it has said this."""
        until(lambda: text in self.said or not self.lives, f"{self.name} says {text!r}")
        assert text in self.said, f"{self.name} ended with {self.process.returncode}: {self.complained}"

    def until_ended(self) -> int:
        """Wait for its end; return its exit code."""
        return self.process.wait(WAIT_S)

    def send(self, number: int) -> None:
        """Send it a signal, and wait until it has had its effect, if that is certain."""
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(WAIT_S)
        elif number == signal.SIGSTOP:
            until(lambda: _state(self.pid) == "T", f"{self.name} stops")

    def end(self) -> None:
        """Have it stop in good order."""
        self.send(signal.SIGTERM)
        assert self.until_ended() == 0, f"{self.name}: {self.complained}"

    def destroy(self) -> None:
        """Kill it and its session. Once it has ended, its number may be anybody's, so what it left behind then is found by its mark."""
        if self.lives:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait(WAIT_S)


class ProcessDirectory:
    """A directory with a database `file`, and the processes that were begun there. With the `url` of another database, they use that."""

    def __init__(self, directory: Path, url: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.file = directory / "perdure.db"
        self.url = url or f"sqlite:///{self.file}"
        self.codec: PayloadCodec | None = None
        self.processes: list[RealProcess] = []
        self._numbers = count(1)
        self._mark = uuid4().hex

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for process in self.processes:
            process.destroy()
        for pid in self._left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if kind is None:
            unsound = [f"{process.name} said: {process.complained}" for process in self.processes if any(word in process.complained for word in UNSOUND)]
            assert not unsound, "\n".join(unsound)

    def begin(self, module: str, *arguments: object, **environment: str) -> RealProcess:
        """Begin a process."""
        process = RealProcess(self.directory, next(self._numbers), module, *arguments, **{MARK: self._mark, **environment})
        self.processes.append(process)
        return process

    def member(self, role: str, *, pace: float = 1.0, shifted: bool = False, counted: bool = False, **settings: object) -> RealProcess:
        """Begin a member of a cluster (see `tests.runtime.cluster_member`); one that is `shifted` or `counted` as the modules of these names say."""
        modules = ["tests.runtime.shifted_clock"] * shifted + ["tests.runtime.statement_counter"] * counted + ["tests.runtime.cluster_member"]
        return self.begin(*modules, role, json.dumps({"url": self.url, **settings}), PERDURE_TEST_PACE=str(pace))

    @property
    def is_begun(self) -> bool:
        """Whether there may be something in the database."""
        return self.file.exists() or not self.url.startswith("sqlite:")

    def _left(self) -> list[int]:
        """The processes that were begun by those of this stage, and still live: they have its mark in their environment."""
        wanted, found = f"{MARK}={self._mark}".encode(), list[int]()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):  # It has just ended, or is another user's.
                if wanted in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def effects(self) -> list[RecordedEffect]:
        """What the steps have done, in order; a last line that is just being written is not there yet."""
        file = self.directory / EFFECTS
        return [_effect.decode(line) for line in file.read_bytes().rpartition(b"\n")[0].splitlines()] if file.exists() else []

    def effect_sizes(self) -> list[int]:
        """The size of each of them in bytes."""
        return [len(line) + 1 for line in (self.directory / EFFECTS).read_bytes().rpartition(b"\n")[0].splitlines()]

    def effects_bytes(self) -> int:
        """How much the steps have said so far."""
        file = self.directory / EFFECTS
        return file.stat().st_size if file.exists() else 0

    def histories(self, known: Mapping[Key, "History"] | None = None) -> dict[Key, "History"]:
        """What is remembered of every execution; what is `known` is read again only if there is more."""
        return asyncio.run(self._histories(known or {}))

    async def _histories(self, known: Mapping[Key, "History"]) -> dict[Key, "History"]:
        plain = open_store_to_copy(self.url)
        store: Store = plain if self.codec is None else EncodedStore(plain, self.codec)
        found = dict[Key, History]()
        try:
            for head in await store.heads(ALL_HEADS):
                before = known.get(head.key)
                if before is None or before.head.version != head.version:
                    read = await store.read(head.key)
                    assert read is not None, f"{head.key} is gone"
                    before = History(read.head, log_format.decode_rows(read.payloads))
                found[head.key] = History(head, before.events)
        finally:
            await store.close()
        return found


class History(NamedTuple):
    """The head of an execution, and all its events."""

    head: Head
    events: list[Event]

    def calls(self) -> dict[Place, str]:
        """The places of its steps, with their idempotency keys."""
        calls = [event.path for event in self.events if isinstance(event, OpenedEvent) and isinstance(event.op, CallOperation)]
        return {path: idempotency_key(self.head.key, path) for path in calls}


_effect = msgspec.json.Decoder(RecordedEffect)


def open_any_store(url: str) -> Store:
    """The store of a URL, of a server as well."""
    return open_store(url) if url.startswith("sqlite:") else open_store_to_copy(url)


def until(holds: Callable[[], object], what: str, wait_s: float = WAIT_S, every_s: float = 0.002) -> float:
    """Wait for something that tells nobody; return how long that took."""
    began_s = time.monotonic()
    while not holds():
        assert time.monotonic() - began_s < wait_s, f"not in {wait_s:g} s: {what}"
        time.sleep(every_s)
    return time.monotonic() - began_s


@contextmanager
def seeded(seed: int) -> Iterator[random.Random]:
    """Draws from `seed`, which every failure within names."""
    try:
        yield random.Random(seed)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def record(figures: str) -> None:
    """Have a figure stand in the output of the test, and in the proof (see tools/prove.py)."""
    sys.stdout.write(figures + "\n")
    if file := os.environ.get("PERDURE_FIGURES"):
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        with Path(file).open("a") as lines:
            lines.write(json.dumps({"test": test, "figures": figures}) + "\n")


def status(pid: int, field: str) -> int:
    """A number that the kernel tells of a process: of its status, in the field's unit."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    raise LookupError(f"the kernel does not tell {field}")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
