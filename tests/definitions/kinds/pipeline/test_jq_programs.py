"""A program in jq that can't be read is found when a definition is read, in a sandbox, and each program once."""

from typing import Any

import pytest

from perdure import Definition
from perdure.core.errors import BadDefinition
from perdure.definitions.kinds.pipeline import external_operations
from perdure.definitions.kinds.sandbox import sandbox_pool


def read(*ops: Any) -> Definition:
    return Definition.of({"perdure": 1, "name": "it", "steps": [{"id": "a", "pipeline": list(ops), "with": {"rows": []}}]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("op", "where"),
    [
        ({"jq_transform": "map("}, "/steps/0/pipeline/1/jq_transform"),
        ({"jq_transform": {"program": "nothing(1)"}}, "/steps/0/pipeline/1/jq_transform/program"),
        ({"step": "jq_transform", "program": "1 +"}, "/steps/0/pipeline/1/program"),
    ],
)
def test_a_program_that_is_none_is_refused_when_the_definition_is_read(op: Any, where: str) -> None:
    with pytest.raises(BadDefinition) as refused:
        read({"top_k": 3}, op)
    (finding,) = refused.value.findings
    assert (finding.code, finding.pointer) == ("bad_config", where)
    assert "jq: error" in finding.message


def test_a_program_that_can_be_read_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, run = list[str](), sandbox_pool.run_job

    async def counted(job: str, given: Any, limits: Any) -> Any:
        asked.append(given["program"])
        return await run(job, given, limits)

    monkeypatch.setattr(sandbox_pool, "run_job", counted)
    for _ in range(3):
        read({"jq_transform": "map(.a) | length as $n | [{n: $n}]"})
    assert asked == ["map(.a) | length as $n | [{n: $n}]"]


async def test_it_is_checked_where_a_loop_runs_already() -> None:
    assert "syntax error" in external_operations.jq_problem("map(((")


def test_a_program_known_only_when_it_runs_is_not_looked_at() -> None:
    _ = read({"jq_transform": {"program": "@self.program"}})
