"""What the checkpointer promises beyond LangGraph's own suite: whole checkpoints after a kill, writers beside each other, large and odd values, encryption."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.graph", reason="langgraph is not installed")

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from perdure import App, WrongVerb
from perdure.core.errors import BadValue
from perdure.core.limits import RECORD_BYTES_MAX
from perdure.core.payload_header import ENCODED_MARKER
from perdure.langgraph import Checkpointer
from perdure.langgraph.checkpoint_records import BATCH, PIECE_BYTES, CheckpointRecords, inverted
from perdure.stores.encryption import Encrypted
from tests.sampling import some

ROOT = Path(__file__).parents[2]


def config(thread: str = "t", namespace: str = "") -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}


def put(saver: Checkpointer, where: Any, values: dict[str, Any], version: str = "1") -> Any:
    """Puts a checkpoint in which each of these channels has this version."""
    versions: Any = dict.fromkeys(values, version)
    return saver.put(where, {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}, {"step": 1}, versions)


@pytest.fixture
def saver(tmp_path: Path) -> Any:
    with Checkpointer(f"sqlite:///{tmp_path}/graphs.db") as made:
        yield made


@pytest.mark.parametrize("size", [0, 1, RECORD_BYTES_MAX // 2 - 5, RECORD_BYTES_MAX // 2, RECORD_BYTES_MAX, 5 * RECORD_BYTES_MAX + 7])
def test_a_value_of_any_size_comes_back_and_is_removed(saver: Checkpointer, size: int) -> None:
    value = random.Random(size).randbytes(size)
    put(saver, config(), {"file": value, "note": "small"})
    found = saver.get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"file": value, "note": "small"}
    saver.delete_thread("t")
    assert saver.get_tuple(config()) is None


def test_threads_and_namespaces_of_any_text_are_kept_apart(saver: Checkpointer) -> None:
    odd = ["", "a", "a/b", "a%2Fb", "ü", "\U0001f600", "a b", "..", "a/", "/a"]
    places = [(thread, namespace) for thread in odd for namespace in odd]
    for place in places:
        put(saver, config(*place), {"place": list(place)})
    for place in places:
        found = saver.get_tuple(config(*place))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"place": list(place)}
    assert len(list(saver.list({"configurable": {"thread_id": "a"}}))) == len(odd)
    saver.delete_thread("a")
    assert len(list(saver.list(None))) == len(places) - len(odd)


def test_inverted_ids_sort_the_other_way_round() -> None:
    ids = ["", "0", "1", "1ef", "1ef-", "1f", "a", "aa", "ab", "b", "ü", "\U0001f600"]
    assert sorted(ids, key=lambda one: one.encode(), reverse=True) == sorted(ids, key=inverted)


def test_a_version_that_checkpoints_share_is_stored_once_and_stays_as_long_as_one_has_it(saver: Checkpointer, tmp_path: Path) -> None:
    value = "shared " * 1000
    first = put(saver, config(), {"shared": value})
    second = saver.put(first, {**empty_checkpoint(), "channel_values": {"shared": value}, "channel_versions": {"shared": "1"}}, {"step": 2, "run_id": "r"}, {})
    with closing(sqlite3.connect(tmp_path / "graphs.db")) as connection:
        assert connection.execute("SELECT count(*) FROM records WHERE kind = 'langgraph value'").fetchone() == (1,)
    saver.prune(["t"])
    found = saver.get_tuple(config())
    assert found is not None
    assert (found.config, found.checkpoint["channel_values"]) == (second, {"shared": value})
    saver.delete_for_runs(["r"])
    with closing(sqlite3.connect(tmp_path / "graphs.db")) as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (0,)


def test_pruning_keeps_what_a_channel_of_changes_is_rebuilt_from(saver: Checkpointer) -> None:
    where, ids = config(), []
    for number in range(5):
        values = {"log": ["snapshot"]} if number == 2 else {}
        where = saver.put(
            where,
            {**empty_checkpoint(), "channel_values": values, "channel_versions": {"log": str(number)}},
            {"step": number, "counters_since_delta_snapshot": {} if number == 2 else {"log": (1, 1)}},
            {"log": str(number)},
        )
        saver.put_writes(where, [("log", number)], "task")
        ids.append(where["configurable"]["checkpoint_id"])
    before = saver.get_delta_channel_history(config=where, channels=["log"])
    saver.prune(["t"])
    assert [one.config["configurable"]["checkpoint_id"] for one in saver.list(config())] == ids[:1:-1]
    assert (
        saver.get_delta_channel_history(config=where, channels=["log"])
        == before
        == {"log": {"seed": ["snapshot"], "writes": [("task", "log", 2), ("task", "log", 3)]}}
    )


def test_an_encrypted_database_has_no_value_in_the_clear(tmp_path: Path) -> None:
    codec = Encrypted({"k1": bytes(32)})
    with Checkpointer(f"sqlite:///{tmp_path}/graphs.db", codec=codec) as saver:
        put(saver, config(), {"secret": "SWORDFISH"})
        found = saver.get_tuple(config())
        assert found is not None
        assert found.checkpoint["channel_values"] == {"secret": "SWORDFISH"}
    assert all(b"SWORDFISH" not in file.read_bytes() for file in tmp_path.iterdir())


def test_what_was_written_before_encryption_is_read_after_it_whatever_its_bytes(tmp_path: Path) -> None:
    url, value = f"sqlite:///{tmp_path}/graphs.db", bytes((ENCODED_MARKER,)) * (2 * PIECE_BYTES)
    with Checkpointer(url) as saver:
        put(saver, config(), {"file": value})
    with Checkpointer(url, codec=Encrypted({"k1": bytes(32)})) as saver:
        found = saver.get_tuple(config())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"file": value}


def test_an_interrupted_deletion_leaves_no_value_without_its_beginning(saver: Checkpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    put(saver, config(), {"first": b"1" * PIECE_BYTES * BATCH, "second": b"2" * PIECE_BYTES * 2})
    posted, post = list[int](), CheckpointRecords._post

    async def interrupted(self: CheckpointRecords, changes: Any) -> bool:
        if len(posted) == 2:
            raise InterruptedError
        posted.append(len(changes))
        return await post(self, changes)

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointRecords, "_post", interrupted)
        with pytest.raises(InterruptedError):
            saver.delete_thread("t")
    saver.copy_thread("t", "other")
    saver.delete_thread("t")
    assert saver.get_tuple(config()) is None


@pytest.mark.slow
def test_writers_beside_each_other_lose_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/graphs.db"
    with Checkpointer(url) as one, Checkpointer(url) as other:
        where = put(one, config(), {"x": 1})
        failures = list[BaseException]()

        def write(saver: Checkpointer, task: str) -> None:
            try:
                for number in range(20):
                    saver.put_writes(where, [("x", number), ("y", number)], f"{task} {number}")
                    saver.put_writes(where, [("__error__", f"{task} {number}")], "shared")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(saver, task)) for saver, task in ((one, "a"), (other, "b"), (one, "c"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        found = one.get_tuple(where)
        assert found is not None
        assert found.pending_writes is not None
        assert len(found.pending_writes) == 3 * 20 * 2 + 1


WRITER = """
import sys
from langgraph.checkpoint.base import empty_checkpoint
from perdure.langgraph import Checkpointer
saver = Checkpointer(sys.argv[1])
number = 0
while True:
    number += 1
    values = {f"channel {one}": number for one in range(5)} | {"large": bytes([number % 256]) * 1_500_000}
    versions = dict.fromkeys(values, str(number))
    config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    saver.put(config, {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}, {"step": number}, versions)
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(3), 1))
def test_after_a_kill_each_checkpoint_is_whole_and_none_that_was_acknowledged_is_missing(tmp_path: Path, seed: int) -> None:
    url = f"sqlite:///{tmp_path}/graphs.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "1\n"
        time.sleep(random.Random(seed).uniform(0.05, 0.6))
        writer.send_signal(signal.SIGKILL)
        acknowledged = [1, *map(int, writer.stdout.read().split())]
    with Checkpointer(url) as saver:
        found = list(saver.list(config()))
        steps = [one.metadata["step"] for one in found]
        assert steps == sorted(steps, reverse=True)
        assert set(acknowledged) <= set(steps)
        assert len(steps) <= len(acknowledged) + 1
        for one in found:
            step = one.metadata["step"]
            values = one.checkpoint["channel_values"]
            assert values == {**{f"channel {number}": step for number in range(5)}, "large": bytes([step % 256]) * 1_500_000}


class Order(TypedDict):
    items: Annotated[list[str], lambda old, new: old + new]


def order_graph(saver: Checkpointer) -> Any:
    """A graph that asks a person in the middle."""
    builder = StateGraph(Order)
    builder.add_node("pick", lambda state: {"items": ["picked"]})
    builder.add_node("ask", lambda state: {"items": [interrupt("ship it?")]})
    builder.add_edge(START, "pick")
    builder.add_edge("pick", "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


def test_a_graph_that_was_interrupted_continues_in_another_process(tmp_path: Path) -> None:
    url, where = f"sqlite:///{tmp_path}/graphs.db", {"configurable": {"thread_id": "o1"}}
    with Checkpointer(url) as saver:
        assert "__interrupt__" in order_graph(saver).invoke({"items": ["ordered"]}, where)
    with Checkpointer(url) as saver:
        graph = order_graph(saver)
        assert graph.get_state(where).next == ("ask",)
        assert graph.invoke(Command(resume="yes"), where)["items"] == ["ordered", "picked", "yes"]
        assert len(list(graph.get_state_history(where))) == 4


async def test_an_app_on_an_event_loop_is_used_there(tmp_path: Path) -> None:
    async with App(db=f"sqlite:///{tmp_path}/graphs.db") as app:
        saver, where = Checkpointer(app), {"configurable": {"thread_id": "o1"}}
        graph = order_graph(saver)
        await graph.ainvoke({"items": []}, where)
        assert (await graph.ainvoke(Command(resume="yes"), where))["items"] == ["picked", "yes"]
        with pytest.raises(WrongVerb, match=r"Use `graph\.ainvoke`"):
            saver.get_tuple(config("o1"))
    with pytest.raises(WrongVerb, match="after the App was closed"):
        await saver.aget_tuple(config("o1"))


def test_an_app_in_a_thread_is_used_by_sync_graphs(tmp_path: Path) -> None:
    app = App(db=f"sqlite:///{tmp_path}/graphs.db")
    with app:
        graph, where = order_graph(Checkpointer(app)), {"configurable": {"thread_id": "o1"}}
        graph.invoke({"items": []}, where)
        assert graph.invoke(Command(resume="yes"), where)["items"] == ["picked", "yes"]


def test_an_app_has_a_codec_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"App\(codec=...\)"):
        Checkpointer(App(db=f"sqlite:///{tmp_path}/graphs.db"), codec=Encrypted({"k1": bytes(32)}))


async def test_an_app_is_not_used_from_another_loop(tmp_path: Path) -> None:
    async with App(db=f"sqlite:///{tmp_path}/graphs.db") as app:
        saver = Checkpointer(app)
        with pytest.raises(WrongVerb, match="on another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(saver.aget_tuple(config())))


FORKS = """
import os, sys
from langgraph.checkpoint.base import empty_checkpoint
from perdure.langgraph import Checkpointer
saver = Checkpointer(sys.argv[1])
where = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
saver.put(where, {**empty_checkpoint(), "channel_values": {"x": 1}, "channel_versions": {"x": "1"}}, {}, {"x": "1"})
pid = os.fork()
print(saver.get_tuple(where).checkpoint["channel_values"], flush=True)
if pid:
    assert os.waitpid(pid, 0)[1] == 0
saver.close()
"""


@pytest.mark.slow
def test_a_forked_process_opens_the_database_for_itself(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", FORKS, f"sqlite:///{tmp_path}/graphs.db"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "{'x': 1}\n" * 2)


@pytest.mark.parametrize("db", [7, object()])
def test_what_is_no_database_is_refused(db: Any) -> None:
    with pytest.raises(BadValue, match=r"Checkpointer\(db\)"):
        Checkpointer(db)


def test_an_unknown_strategy_is_refused_and_changes_nothing(saver: Checkpointer) -> None:
    put(saver, config(), {"x": 1})
    with pytest.raises(BadValue, match="keep_latest or delete"):
        saver.prune(["t"], strategy="all")
    assert saver.get_tuple(config()) is not None


def test_a_name_that_is_too_long_is_refused_and_changes_nothing(saver: Checkpointer) -> None:
    with pytest.raises(BadValue, match="record key"):
        put(saver, config("t" * 2000), {"x": 1})
    assert not list(saver.list(None))
