"""`validate`, `lint`, `compile` and `graph` refuse what `run` refuses, and say the same."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from perdure import Definition
from perdure.cli.command_list import root
from perdure.core.errors import BadDefinition

WRONG = {
    "pipeline: [{table_fliter: {field: a, gte: 1}}]": "did you mean 'table_filter'?",
    "pipeline: [{table_filter: {feild: a, gte: 1}}]": "did you mean 'field'?",
    "pipeline: [{groupby: {by: [a], aggregates: {x: {summ: b}}}}]": "did you mean 'sum'?",
    "http: 'ftp://x.example'": "http",
}


@pytest.mark.parametrize("command", ["validate", "lint", "compile", "graph"])
@pytest.mark.parametrize("step", WRONG)
def test_what_a_step_says_to_its_kind_is_checked_wherever_a_definition_is_read(tmp_path: Path, step: str, command: str) -> None:
    file = tmp_path / "it.yaml"
    file.write_text(f"perdure: 1\nname: it\nsteps:\n  - {{id: a, {step}}}\n")
    with pytest.raises(BadDefinition) as refused:
        Definition.load(file)
    assert WRONG[step] in str(refused.value)
    found: Any = CliRunner().invoke(root, [command, str(file)])
    (wrong,) = refused.value.findings
    assert found.exit_code != 0 and wrong.message in found.output
