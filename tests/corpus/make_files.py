"""Makes the database files of the corpus: ``PYTHONPATH=src:. python -m tests.corpus.make_files NAME``, by hand, for a new version of the tables.

A process plays until there is an execution in every state, and is killed; what it leaves is compressed to ``files/NAME.db.gz``.
Ids, holders, seeds and inputs are fixed; times are those of the making.
"""

import asyncio
import gzip
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from perdure.core import messages, values
from perdure.core.attributes import checked_attributes, index_attributes
from perdure.core.envelopes import NewExecution, OutgoingMessage
from perdure.core.messages import ExecutionMessage
from perdure.core.paths import Key
from perdure.runtime.engine import Engine
from perdure.runtime.worker import Worker
from perdure.stores.protocol import Post, QueueLimits
from perdure.stores.sqlite.store import SqliteStore
from perdure.workflow_function import Workflow
from tests.corpus import states
from tests.corpus.states import LARGE_BYTES, MADE, PRESS, world

FILES = Path(__file__).parent / "files"
TENANT, ID, INPUT = "corpus", "1", "ab"
STATUSES = {
    "pending": "pending",
    "running": "running",
    "retrying": "waiting",
    "sleeping": "waiting",
    "listening": "waiting",
    "child": "waiting",
    "parent": "waiting",
    "queued": "waiting",
    "diverged": "needs_attention",
    "paused": "paused",
    "heavy": "waiting",
    "looped": "waiting",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
"""How each execution stands in a file."""


def newest_file() -> bytes:
    """The bytes of the file of the newest version."""
    newest = max(FILES.glob("sqlite-*.db.gz"), key=lambda path: int(path.name.removeprefix("sqlite-").partition(".")[0]))
    return gzip.decompress(newest.read_bytes())


def key(workflow: str) -> Key:
    """The execution of a workflow."""
    return Key(TENANT, workflow, ID)


def start(workflow: Workflow[..., Any]) -> Post:
    """Start one."""
    to = key(workflow.code.name)
    known = checked_attributes({"state": to.workflow, "letters": len(to.workflow), "short": len(to.workflow) < 7})
    begin = messages.StartMessage(1, workflow.code.codec.encode_args((INPUT,), {}, "the input"), 20260101, attributes=known)
    opens = NewExecution(f"{to.workflow}@1", to, attributes=index_attributes(known))
    return Post(messages=(OutgoingMessage(to, "start", messages.encode_message(begin), 0.0, opens),))


def tell(workflow: str, name: str, message: ExecutionMessage) -> Post:
    """Have it told something."""
    return Post(messages=(OutgoingMessage(key(workflow), name, messages.encode_message(message)),))


def signalled(workflow: str, name: str, body: Any = "told") -> Post:
    """Have it sent a message."""
    blobs = dict[str, bytes]()
    light = values.offload_if_large(values.encode(body, "the body"), blobs)
    return Post(messages=tell(workflow, f"message:{name}", messages.SignalMessage(name, light, name)).messages, blobs=tuple(blobs.items()))


async def play(file: Path) -> None:
    """Bring executions into every state, say so, and wait to be killed."""
    world["making"] = True
    store = SqliteStore(file)
    engine = Engine(store, [one.code for one in MADE], holder="corpus-engine", lease_s=1.0)
    worker = Worker(store, [states.press], queues=[PRESS], limit=1, holder="corpus-worker", lease_s=1.0)
    tasks = [asyncio.create_task(engine.run())]
    await engine.ready()
    await store.limit(PRESS, QueueLimits(concurrency=5))
    await store.limit(PRESS, QueueLimits(concurrency=4, per_lane=4), TENANT)
    await store.commit([start(one) for one in MADE if one is not states.child])
    await _until(store, {"listening": "waiting", "paused": "waiting", "cancelled": "waiting", "heavy": "waiting", "diverged": "waiting", "queued": "waiting"})
    await store.commit([signalled("listening", "early", [1, "early"]), signalled("heavy", "large", "m" * LARGE_BYTES)])
    await store.commit([tell("paused", "pause", messages.PauseMessage("for now")), tell("cancelled", "cancel", messages.CancelMessage("enough"))])
    await _until(store, {"paused": "paused", "cancelled": "cancelled"})
    engine.stop()
    await tasks.pop()
    world["changed"] = True
    again = Engine(store, [one.code for one in MADE], holder="corpus-again", lease_s=1.0)
    tasks += [asyncio.create_task(again.run()), asyncio.create_task(worker.run())]
    await again.ready()
    await store.commit([signalled("diverged", "wake")])
    await _until(store, {"diverged": "needs_attention"})
    await store.commit([start(states.pending), signalled("expected", "wanted"), signalled("paused", "wanted")])
    await _until(store, STATUSES)
    await asyncio.sleep(1.0)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.gather(*tasks)


async def _until(store: SqliteStore, wanted: dict[str, str]) -> None:
    """Wait until executions stand so."""
    async with asyncio.timeout(60):
        while wanted.items() - {head.key.workflow: head.status for head in await store.heads() if head.version or head.status == "pending"}.items():
            await asyncio.sleep(0.05)


def main(name: str) -> None:
    """Make a file."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "corpus.db"
        command = [sys.executable, "-m", "tests.corpus.make_files", "--play", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None and process.stdout.readline() == "ready\n", "it did not come so far"
            process.send_signal(signal.SIGKILL)
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            database.execute("VACUUM")
        FILES.mkdir(exist_ok=True)
        (FILES / f"{name}.db.gz").write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    if sys.argv[1] == "--play":
        asyncio.run(play(Path(sys.argv[2])))
    else:
        main(sys.argv[1])
