"""The guide is what the table of kinds says."""

from perdure.lint import RULES
from tests.lint.guide_writer import GROUPS, GUIDE, guide


def test_the_guide_is_up_to_date() -> None:
    assert GUIDE.read_text(encoding="utf-8") == guide(), "write it anew: python -m tests.lint.guide_writer"


def test_the_guide_has_every_kind_once() -> None:
    for kind in RULES.values():
        assert guide().count(f"\n### {kind.code} {kind.name}\n") == 1
    assert {code[:3] for code in RULES} == set(GROUPS)
