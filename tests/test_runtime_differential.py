"""Claims about the comparison of two checkouts: which differences it finds, and which it counts as free."""

from typing import Any

import pytest

from tools.runtime_differential import differences

FACTS: dict[str, Any] = {"input": "i", "problems": [], "effects": {"s1": 1, "s2": 1}, "maybe": ["s2"], "logs": {"e": ["a", "b"]}}


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"input": "other"}, "input"),
        ({"problems": ["one"]}, "problems"),
        ({"effects": {"s1": 2, "s2": 1}}, "effects"),
        ({"effects": {"s1": 1}}, "effects of losers"),
        ({"logs": {}}, "executions"),
        ({"logs": {"e": ["a"]}}, "log"),
        ({"logs": {"e": ["a", "b", "Opened (('race', 1), ('b', 1))"]}}, "events of a race"),
        ({"logs": {"e": ["a", "b", "Opened {'role': 'attributes'}"]}}, "attributes in another order"),
        ({"logs": {"e": ["a", "b", "Opened (('race', 1), ('b', 1))", "c"]}}, "log"),
        ({"logs": {"e": ["b", "a"]}}, "order"),
        ({"facts": {"status": "failed"}}, "facts"),
    ],
)
def test_each_kind_of_difference_between_two_checkouts_is_found_and_named(change: dict[str, Any], kind: str) -> None:
    assert [difference.partition(":")[0] for difference in differences(FACTS, FACTS | change)] == [kind]
    assert list(differences(FACTS, FACTS)) == []
