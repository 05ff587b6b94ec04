"""What the command line says becomes arguments: JSON where it parses, text where it does not, and text where text is hinted at."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.cli.argument_values import parse_sent_value, parse_value, workflow_arguments, workflow_parameters
from perdure.core.errors import BadValue


def said(*texts: str, pairs: Sequence[str] = (), source: str | None = None) -> dict[str, Any]:
    return {"arguments": texts, "pairs": pairs, "source": source}


@pytest.mark.parametrize(
    ("text", "meant"),
    [("3", 3), ("-1.5", -1.5), ("true", True), ("null", None), ('"3"', "3"), ('{"a": [1]}', {"a": [1]}), ("Ada", "Ada"), ("", ""), ("NaN", "NaN")],
)
def test_a_value_is_json_where_it_parses(text: str, meant: object) -> None:
    assert parse_value(text) == meant
    assert type(parse_value(text)) is type(meant)


@pytest.mark.parametrize("text", ["1e400", "-1e400", '{"a": [1e999]}', "9" * 5000, "[" * 100_000])
def test_a_number_that_json_can_not_pass_on_and_deep_json_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"the input: .* is not (a number of at most|an integer of at most|nested less)"):
        parse_value(text)
    assert parse_value(text, str) == text
    (tmp_path / "in.json").write_text(text)
    with pytest.raises(BadValue, match="the input: "):
        workflow_arguments(said(source=str(tmp_path / "in.json")), [])


@given(st.text())
def test_where_text_is_hinted_at_a_value_is_text(text: str) -> None:
    assert isinstance(parse_value(text, str), str)


def test_a_number_stays_text_where_the_workflow_wants_text() -> None:
    async def takes(ctx: Any, order: str, cents: int, *notes: str, by: "str" = "") -> None: ...

    known = workflow_parameters(takes)
    assert workflow_arguments(said("007", "5", "1", "2", pairs=["by=true"]), known) == (["007", 5, "1", "2"], {"by": "true"})


def test_a_hint_that_cannot_be_resolved_says_nothing() -> None:
    async def takes(ctx: Any, order: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # it is what is tested

    assert workflow_arguments(said("007x", "5"), workflow_parameters(takes)) == (["007x", 5], {})


def test_an_object_from_a_file_gives_arguments_by_name_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "in.json"
    file.write_text('{"a": 1, "b": 2}')
    assert workflow_arguments(said("0", pairs=["b=3"], source=str(file)), []) == ([0], {"a": 1, "b": 3})


def test_an_array_from_standard_input_gives_arguments_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("[1, null]"))
    assert workflow_arguments(said(source="-"), []) == ([1, None], {})


@pytest.mark.parametrize(
    ("texts", "pairs", "document"),
    [
        ((), ["a"], None),
        ((), ["=1"], None),
        ((), ["a=1", "a=2"], None),
        (("1",), [], "[2]"),
        ((), [], "3"),
        ((), [], "{"),
        ((), [], "NaN"),
    ],
    ids=["no sign", "no key", "twice", "both by position", "neither", "no JSON", "not a number"],
)
def test_what_cannot_be_meant_is_refused(texts: tuple[str, ...], pairs: list[str], document: str | None, tmp_path: Path) -> None:
    file = tmp_path / "in.json"
    file.write_text(document or "")
    with pytest.raises(BadValue):
        workflow_arguments(said(*texts, pairs=pairs, source=None if document is None else str(file)), [])


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="No such file"):
        workflow_arguments(said(source=str(tmp_path / "none.json")), [])


@pytest.mark.parametrize(("text", "value"), [("hello", "hello"), ('{"a": [1]}', {"a": [1]}), (" [1]", [1]), ('"{a}"', "{a}"), ("7", 7), ("", "")])
def test_a_value_for_an_execution_is_json_or_text(text: str, value: Any) -> None:
    assert parse_sent_value(text, "the message") == value


@pytest.mark.parametrize("text", ["{cents: 4900}", "[1, 2", " {'a': 1}", "[urgent] call", "{}}", "[1e400]", "[" * 100_000])
def test_a_value_for_an_execution_that_begins_as_json_is_json(text: str) -> None:
    with pytest.raises(BadValue, match=r"the (message|input): "):
        parse_sent_value(text, "the message")
