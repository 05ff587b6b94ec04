"""Makes the logs of the corpus, of code and of definitions: ``PYTHONPATH=src:. python -m tests.corpus.make v2``. Run by hand, never by a test.

It writes the files of new cases. Everything runs in virtual time on one seed, so that the same code makes the same files. Tracebacks, which name files, are
left out.
"""

import asyncio
import sys
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import compress

import msgspec

from perdure import Vote
from perdure.code import code_program, exception_data
from perdure.code.carried_context import captured_context
from perdure.core import log_format, messages, values
from perdure.core.envelopes import OutgoingMessage
from perdure.core.errors import ErrorInfo
from perdure.core.events import EndedEvent
from perdure.core.messages import ExecutionMessage
from perdure.core.operations import SpawnOperation, Success
from perdure.core.paths import Key, path_text
from perdure.core.replay import fold_events
from perdure.core.views import public_history
from perdure.runtime import step_runner
from perdure.runtime.engine import Engine
from perdure.runtime.workflow_programs import Workflow as AnyWorkflow
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import Post
from perdure.testing.virtual_time import run
from perdure.workflow_function import Workflow
from tests.corpus import definitions, replay
from tests.corpus.workflows import CASES, broken

HERE = Path(__file__).parent


ENDED = ("completed", "failed", "cancelled")


class Record(msgspec.Struct):
    """One execution of a case: its log as hexadecimal rows, what was open behind each, how it stood at last, and the hash of its public history."""

    key: Key
    root: Key
    version: int
    rows: list[str]
    opens: list[str]
    status: str
    result: str | None
    error: str | None
    history: str


class Recorded(msgspec.Struct):
    """What a file of the corpus holds: the executions of a case at their end, and before, in flight; blobs are deflated (zlib), then base64."""

    perdure: str
    executions: list[Record]
    in_flight: list[Record]
    blobs: dict[str, str]


class Played:
    """A stage: an engine on a store in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.store = MemoryStore(asyncio.get_running_loop().time)
        self.engine = Engine(self.store, made_of(name), holder="corpus", seed=lambda: 20260101)
        self._in_flight: list[Record] = []
        self._mail = 0

    async def start(self, workflow: Workflow[..., Any], *args: Any, id: str = "1", **input: Any) -> Key:
        key = Key("corpus", workflow.code.name, id)
        await self.engine.start(key, workflow.code.codec.encode_args(args, input, "the input"), carried=captured_context())
        return key

    async def send(self, key: Key, name: str, body: Any = None, once: str = "") -> None:
        await self.post(key, messages.SignalMessage(name, values.encode(body, "the body"), once))

    async def cancel(self, key: Key, reason: str) -> None:
        await self.post(key, messages.CancelMessage(reason))

    async def retry(self, key: Key, reason: str) -> None:
        await self.post(key, messages.RetryMessage(reason))

    async def undo(self, key: Key, reason: str) -> None:
        await self.post(key, messages.UndoMessage(reason))

    async def vote(self, key: Key, path: str, vote: Vote) -> None:
        await self.send(await self._child(key, path), "vote", vote)

    def repair(self) -> None:
        broken["yes"] = False

    async def halfway(self) -> None:
        self._in_flight = [record for record in await self._records() if record.rows]
        assert any(record.status not in ENDED for record in self._in_flight), f"{self.name} has ended already halfway"

    async def post(self, key: Key, message: ExecutionMessage) -> None:
        """Send any message from outside."""
        self._mail += 1
        await self.store.commit([Post(messages=(OutgoingMessage(key, f"corpus:{self._mail}", messages.encode_message(message)),))])

    async def play(self, script: Callable[["Played"], Coroutine[Any, Any, object]]) -> Recorded:
        """Run the case until every execution has ended; return what is to be kept."""
        import perdure

        running = asyncio.create_task(self.engine.run())
        await self.engine.ready()
        await script(self)
        while any(head.ended_at_s is None for head in await self.store.heads()):
            await asyncio.sleep(100)
        self.engine.stop()
        await running
        assert self._in_flight, f"{self.name} was not recorded halfway"
        blobs = {name: b64encode(compress(raw, 9)).decode() for name, raw in sorted(self.store._blobs.items())}
        return Recorded(getattr(perdure, "__version__", "0.1.0"), await self._records(), self._in_flight, blobs)

    async def _child(self, key: Key, path: str) -> Key:
        """The execution that was started at a path."""
        found = await self.store.read(key)
        assert found is not None
        execution = fold_events(key, log_format.decode_rows(found.payloads))
        op = next(one.op for at, one in execution.open.items() if path_text(at) == path)
        assert isinstance(op, SpawnOperation)
        return Key(key.tenant, op.workflow, op.id)

    async def _records(self) -> list[Record]:
        return [await self._record(head.key, head.root) for head in reversed(await self.store.heads())]

    async def _record(self, key: Key, root: Key) -> Record:
        found = await self.store.read(key)
        assert found is not None
        execution = fold_events(key, log_format.decode_rows(found.payloads), root)
        opens = replay.opens(self.name, key, root, found.payloads, self.store._blobs)
        result = error = None
        if (ended := execution.ended) is not None:
            result = await self._payload(ended) if isinstance(ended.outcome, Success) else None
            error = None if isinstance(ended.outcome, Success) else f"{ended.outcome.error.type}: {ended.outcome.error.message}"
        version = 1 if execution.started is None else execution.started.version
        return Record(key, root, version, [row.hex() for row in found.payloads], opens, execution.status, result, error, history_hash(key, found.payloads))

    async def _payload(self, ended: EndedEvent) -> str:
        assert isinstance(ended.outcome, Success)
        value = ended.outcome.value
        raw = await self.engine.payloads.get(value.sha256) if isinstance(value, values.Blob) else value
        return raw.hex() if len(raw) < 10_000 else sha256(raw).hexdigest()


def history_hash(key: Key, rows: Any) -> str:
    """The hash of the public history of a log."""
    told = [msgspec.json.encode(event) for event in public_history(key, map(log_format.decode_row, rows))]
    return sha256(b"\n".join(told)).hexdigest()


@contextmanager
def without_tracebacks() -> Iterator[None]:
    """Leave out of the log what depends on where the code lies."""
    before, name = exception_data.error_info, "error_info"

    def short(error: BaseException, *how: Any) -> ErrorInfo:
        info = before(error, *how)
        return ErrorInfo(info.type, info.message)

    for module in (code_program, exception_data, step_runner):
        setattr(module, name, short)
    try:
        yield
    finally:
        for module in (code_program, exception_data, step_runner):
            setattr(module, name, before)


def made_of(name: str) -> list[AnyWorkflow]:
    """The workflows that the engine of a case is given."""
    return [one.code for one in CASES[name].workflows] if name in CASES else definitions.family(name)


def made(name: str) -> Recorded:
    """The case of this name, played in a world of its own."""
    with without_tracebacks():
        return run(lambda: _play(name))


async def _play(name: str) -> Recorded:
    return await Played(name).play(CASES[name].play if name in CASES else lambda stage: definitions.play(name, stage))


def main(directory: str) -> None:
    """Write the file of every case that has none. What a version wrote is never written again."""
    (HERE / directory).mkdir(exist_ok=True)
    for file, name in ((HERE / directory / f"{name}.json", name) for name in replay.NAMES):
        if not file.exists():
            file.write_bytes(msgspec.json.format(msgspec.json.encode(made(name)), indent=1) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
