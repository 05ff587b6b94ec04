"""Each kind is what it says: its bad snippet has it and nothing else, its good one has nothing, its message says what to do."""

import ast
import re

import pytest

from perdure.lint import RULES, LintRule, lint

ALL = pytest.mark.parametrize("kind", RULES.values(), ids=lambda kind: f"{kind.code}-{kind.name}")


@ALL
def test_the_bad_snippet_has_the_kind_and_nothing_else(kind: LintRule) -> None:
    assert {one.code for one in lint(kind.bad)} == {kind.code}


@ALL
def test_the_good_snippet_has_nothing(kind: LintRule) -> None:
    assert lint(kind.good) == []
    ast.parse(kind.good)


@ALL
def test_the_message_has_the_fix_and_is_one_sentence(kind: LintRule) -> None:
    for one in lint(kind.bad):
        assert one.message.endswith(f"; {kind.fix}")
        assert "\n" not in one.message and not one.message.endswith(".")
        assert (one.kind, one.severity) == (kind.name, kind.severity)


@ALL
def test_a_finding_points_to_what_it_is_about(kind: LintRule) -> None:
    lines = kind.bad.split("\n")
    for one in lint(kind.bad):
        assert 1 <= one.line <= one.end_line <= len(lines)
        assert 1 <= one.column <= len(lines[one.line - 1]) + 1
        assert (one.line, one.column) <= (one.end_line, one.end_column)


@ALL
def test_what_is_said_of_it_is_whole_sentences(kind: LintRule) -> None:
    assert re.fullmatch(r"PD[0-5]\d\d", kind.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.name)
    assert kind.why.endswith(".") and kind.why[0].isupper() | kind.why.startswith(("keep ", "id() ", "asyncio ", "time.sleep "))
    assert not kind.title.endswith(".") and not kind.fix.endswith(".")


def test_there_are_more_than_twenty_kinds_of_what_breaks_replay_each_with_its_own_name() -> None:
    assert sum(kind.code >= "PD100" for kind in RULES.values()) > 20
    assert len({kind.name for kind in RULES.values()}) == len(RULES)
    assert list(RULES) == sorted(RULES)


@pytest.mark.parametrize("code", [code for code in RULES if code >= "PD100"])
def test_outside_of_workflows_nothing_is_raised(code: str) -> None:
    plain = re.sub(r"ctx: (Sync)?Context", "ctx", RULES[code].bad.replace("@workflow\n", ""))
    assert lint(plain) == []
