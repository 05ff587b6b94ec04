"""The checkpointer passes LangGraph's own suite for checkpointers, with its async methods and with its sync ones."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.checkpoint.conformance", reason="langgraph-checkpoint-conformance is not installed")

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.checkpoint.conformance.report import CapabilityReport

from perdure import App
from perdure.langgraph import Checkpointer
from perdure.stores.configured_store import open_store_to_copy
from tests.stores import servers


class SyncMethods(Checkpointer):
    """Its async methods call the sync ones."""

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        for one in self.list(config, **options):
            yield one

    async def aput(self, *args: Any) -> Any:
        return self.put(*args)

    async def aput_writes(self, *args: Any, **options: Any) -> None:
        self.put_writes(*args, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)


async def report_of(kind: type[Checkpointer], db: Any) -> CapabilityReport:
    """What the suite says."""

    @checkpointer_test(name="perdure")
    async def made() -> AsyncIterator[Checkpointer]:
        with kind(db) as checkpointer:
            yield checkpointer

    return await validate(made)


def expect_all_passed(report: CapabilityReport) -> None:
    results = report.results
    assert {name: (one.detected, one.passed, one.tests_failed, one.tests_skipped, one.failures) for name, one in results.items()} == {
        capability.value: (True, True, 0, 0, []) for capability in ALL_CAPABILITIES
    }
    assert sum(one.tests_passed for one in results.values()) >= 70


@pytest.mark.parametrize("kind", [Checkpointer, SyncMethods])
async def test_it_passes_on_sqlite(kind: type[Checkpointer], tmp_path: Path) -> None:
    expect_all_passed(await report_of(kind, f"sqlite:///{tmp_path}/graphs.db"))


async def test_it_passes_on_an_app(tmp_path: Path) -> None:
    async with App(db=f"sqlite:///{tmp_path}/graphs.db") as app:
        expect_all_passed(await report_of(Checkpointer, app))


@pytest.mark.real
@pytest.mark.parametrize("server", ["postgres", "valkey"])
async def test_it_passes_on_servers(server: str) -> None:
    with getattr(servers, server)() as running:
        store = open_store_to_copy(running.url)
        try:
            async with App(db=store) as app:
                expect_all_passed(await report_of(Checkpointer, app))
        finally:
            await store.close()
