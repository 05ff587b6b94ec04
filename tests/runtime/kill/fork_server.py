"""A fork server: a process that has imported a scenario, and forks engines and operators as they are wanted, so that a new one costs milliseconds.

    python -m tests.runtime.kill.fork_server SCENARIO

What is wanted comes as lines of JSON through the pipe `WANTED`, and is answered through `TOLD`. The fork server alone knows its children, so that
none is killed by a number that is another's by then.
"""

import asyncio
import ctypes
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.runtime.server import serve
from perdure.sync_client import Client
from tests.runtime.kill.scenario import Scenario
from tests.runtime.tied_process import PR_SET_PDEATHSIG

WANTED, TOLD, READY = "wanted", "told", "ready"
GRACE_S = 5.0


def known(name: str) -> Scenario:
    """The scenario of a name."""
    scenario: Scenario = importlib.import_module(f"tests.runtime.kill.{name}").SCENARIO
    return scenario


def engine(scenario: Scenario, url: str, deploy: int) -> None:
    """Serve the code of a deploy, until told to stop; of no deploy, without queues."""
    codes, queues = [one.code for one in scenario.workflows(deploy)], scenario.queues if deploy else ()
    asyncio.run(serve(codes, scenario.steps, queues=queues, declares=scenario.declares, db=url, grace_s=GRACE_S, ready=lambda _: say_ready()))


def say_ready() -> None:
    """Say that this process works now."""
    file = os.open(READY, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, f"{os.getpid()}\n".encode())
    os.close(file)


def operator(scenario: Scenario, url: str, name: str, arguments: list[Any]) -> None:
    """Do what an operator of the scenario does."""
    with Client(url) as client:
        scenario.operators[name](client, *arguments)


def fork(run: Callable[[], None], environment: dict[str, str]) -> int:
    """Run this in a process of its own, which dies with this one; return its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.environ.update(environment)
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def code_of(pid: int, options: int) -> int | None:
    """The exit code of a child, negative for a signal; None if it lives."""
    found, status = os.waitpid(pid, options)
    return os.waitstatus_to_exitcode(status) if found else None


def answer(scenario: Scenario, wanted: dict[str, Any]) -> Any:
    """Do what is wanted."""
    match wanted:
        case {"fork": "engine", "url": url, "deploy": deploy, "environment": environment}:
            return fork(lambda: engine(scenario, url, deploy), environment)
        case {"fork": name, "url": url, "arguments": arguments, "environment": environment}:
            return fork(lambda: operator(scenario, url, name, arguments), environment)
        case {"poll": pid}:
            return code_of(pid, os.WNOHANG)
        case {"send": number, "to": pid}:
            os.kill(pid, number)
            return code_of(pid, 0) if number == signal.SIGKILL else None
    raise ValueError(f"nobody can do this: {wanted}")


def main() -> None:
    """Answer until nobody asks any more."""
    scenario = known(sys.argv[1])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with Path(WANTED).open() as asked, Path(TOLD).open("w") as told:
        for line in asked:
            told.write(json.dumps(answer(scenario, json.loads(line))) + "\n")
            told.flush()


if __name__ == "__main__":
    main()
