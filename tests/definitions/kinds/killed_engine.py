"""An engine with an execution of every kind of steps, in a process that kills itself at one of its commits.

    python -m tests.definitions.kinds.killed_engine

What is wanted comes as lines of JSON: which commit is the last, whether it is still carried out, where everything is, and the address of the server. This
process forks one that does it, and inherits whatever that leaves behind: it answers with its exit code, and with how many processes had to be ended.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from perdure import Definition
from perdure.stores.sqlite.store import SqliteStore
from tests.definitions.kinds.kind_table import KINDS, KindEnvironment, working

PR_SET_CHILD_SUBREAPER = 36
GONE_S = 10.0
END_S = 60.0

DOING: dict[str, Any] = {
    "bash that may not be repeated": {"bash": {"command": 'echo done >> "$LEDGER"', "check": True}, "env": {"LEDGER": "@input.ledger"}},
    "bash that may be": {"bash": {"command": 'echo done >> "$LEDGER"; echo fine', "check": True}, "env": {"LEDGER": "@input.ledger"}, "idempotent": True},
    "POST that may not be repeated": {"http": {"url": "@{input.url}/post", "method": "POST", "json": 1}},
    "POST without a key": {"http": {"url": "@{input.url}/keyless", "method": "POST", "json": 1, "idempotency_key": False}},
    "POST that may be": {"http": {"url": "@{input.url}/charge", "method": "POST", "json": 1}, "idempotent": True},
    "operation that may not be repeated": {"openapi": {"url": "@{input.url}/openapi.json", "operation": "charge"}},
    "PUT": {"http": {"url": "@{input.url}/put", "method": "PUT", "json": 1}},
    "GET": {"http": {"url": "@{input.url}/get"}},
}
"""Steps that do something in the world, by what they are."""


def definitions(place: KindEnvironment) -> dict[str, Definition]:
    """A definition for each kind, and for each step that does something in the world."""
    given = {name: {"default": ""} for name in ("value", "url", "ledger")}
    steps = {**{kind: row.echo(place) for kind, row in KINDS.items()}, **DOING}
    return {
        name: place.definition({"id": "a", "retry": {"wait": "1ms"}, **step}, {"id": "b", "needs": ["a"], "sleep": "1ms"}, {"id": "c", "return": "@a"},
                               name=name, input=given)
        for name, step in steps.items()
    }  # fmt: skip


async def work(url: str, directory: Path, last: int, after: bool) -> None:
    """Run all executions to their ends, and write down how they ended; or die at a commit."""
    place, store, commits = KindEnvironment(url, directory), SqliteStore(directory / "it.db", synchronous="OFF"), 0
    commit = store.commit

    async def mortal(changes: Any) -> Any:
        nonlocal commits
        commits += 1
        if commits == last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = await commit(changes)
        if commits >= last and after:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    store.commit = mortal  # type: ignore[method-assign]  # all that is ever written goes through it
    known = definitions(place)
    async with working(store, *known.values()) as client:
        handles = {
            name: await client.start(one.with_(id="x"), value="text", url=place.url, ledger=str(directory / f"{name}.ledger")) for name, one in known.items()
        }
        found = await asyncio.gather(*(handle.result(END_S) for handle in handles.values()), return_exceptions=True)
    ends = {name: str(how) if isinstance(how, Exception) else {"value": how} for name, how in zip(handles, found, strict=True)}
    (directory / "ends.json").write_text(json.dumps(ends))
    await store.close()


def forked(wanted: dict[str, Any]) -> int:
    """Do it in a process of its own; its exit code, negative for a signal."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        asyncio.run(work(wanted["url"], Path(wanted["directory"]), wanted["last"], wanted["after"]))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def left() -> int:
    """How many processes it has left behind that did not end soon."""
    ends_s = time.monotonic() + GONE_S
    while time.monotonic() < ends_s:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if not pid:
            time.sleep(0.01)
    children = [int(child) for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(children)


def main() -> None:
    """Answer until nobody asks any more."""
    import httpx2  # noqa: F401  # once here, and not in each process that is forked
    import openai  # noqa: F401  # the same
    import pydantic_ai.models.openai  # noqa: F401  # the same

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    for line in sys.stdin:
        code = forked(json.loads(line))
        print(json.dumps({"code": code, "left": left()}), flush=True)  # noqa: T201  # this is how it answers


if __name__ == "__main__":
    main()
