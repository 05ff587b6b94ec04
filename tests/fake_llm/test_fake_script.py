"""Scripts: rules are read, and what is wrong with one is told by its number."""

from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadValue
from perdure.fake_llm import load
from perdure.fake_llm.fake_script import ScriptedError, parse_script

WRONG: list[tuple[Any, str]] = [
    ("x", "a list of rules"),
    ({"rule": []}, "a list of rules"),
    ([{"answer": "a"}, {"anser": "a"}], "rule 2 of the script.*unknown field `anser`"),
    ([{"when": {"matches": "("}, "answer": "a"}], "rule 1.*unterminated"),
    ([{"answer": "a", "error": 500}], "an answer or an error, and not both"),
    ([{}], "an answer or an error, and not both"),
    ([{"answer": "a", "delay": "soon"}], "rule 1"),
    ([{"error": "tired"}], "rule 1"),
]


@pytest.mark.parametrize(("given", "says"), WRONG)
def test_what_is_wrong_with_a_rule_is_told(given: Any, says: str) -> None:
    with pytest.raises(BadValue, match=says):
        parse_script(given)


def test_a_file_is_yaml_or_json(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("rules:\n  - {answer: {json: {a: 1}}, delay: 2s, usage: {input: 5}}\n  - {error: rate_limit}\n")
    (tmp_path / "a.json").write_text('[{"answer": {"calls": [{"name": "f"}]}, "repeat": true}, {"error": {"status": 429, "retry_after": 3}}]')
    first, second = load(tmp_path / "a.yaml")
    assert (first.reply.json, first.delay_s, first.usage and first.usage.input) == ({"a": 1}, 2.0, 5) and second.mishap == ScriptedError(kind="rate_limit")
    third, fourth = load(tmp_path / "a.json")
    assert (third.reply.calls[0].name, third.repeat) == ("f", True) and fourth.mishap == ScriptedError(status=429, retry_after=3)
    (tmp_path / "bad.yaml").write_text("rules: [")
    with pytest.raises(BadValue, match="YAML or JSON"):
        load(tmp_path / "bad.yaml")
