"""Claims about conditions: a range of bytes means what its comparison says, within one kind; and text says what it seems to say, or is refused."""

import operator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from perdure.core import attribute_filter, attributes
from perdure.core.attribute_filter import AttributeConditions, Is
from perdure.core.errors import BadName, BadValue
from tests.core.test_attributes import ANY

DUE = datetime(2026, 1, 31, 12, tzinfo=UTC)
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def holds(wanted: Any, has: Any, name: str = "a") -> bool:
    """Whether an execution with this one attribute is meant."""
    (condition,) = attribute_filter.attribute_conditions({"a": wanted})
    return condition.holds(attributes.index_attributes(attributes.checked_attributes({name: has})))


def kind(value: Any) -> type:
    """Values of one kind can be compared."""
    return bool if isinstance(value, bool) else float if isinstance(value, int | float) else type(value)


@pytest.mark.slow
@given(ANY, ANY)
def test_a_comparison_means_what_it_says_within_a_kind_and_nothing_beyond(has: Any, value: Any) -> None:
    alike = kind(has) is kind(value)
    assert holds(value, has) == holds(Is("=", value), has) == (alike and has == value)
    assert holds(Is("!=", value), has) == (not (alike and has == value))
    assert holds(Is("=", has), has) and not holds(Is("!=", has), has)
    if kind(value) is not bool:
        for sign, compare in OPERATORS.items():
            assert holds(Is(sign, value), has) == (alike and compare(has, value)), sign  # type: ignore[arg-type]  # a sign is one


@given(ANY)
def test_what_is_not_there_is_neither_equal_nor_unequal(value: Any) -> None:
    assert not any(holds(wanted, 1, name="b") for wanted in (Is("exists"), Is("=", value), Is("!=", value)))
    assert holds(Is("exists"), value)


@given(ANY)
def test_an_equality_means_few_forms_and_a_range_means_many(value: Any) -> None:
    (same,), (exists,), (other,) = (attribute_filter.attribute_conditions({"a": wanted}) for wanted in (value, Is("exists"), Is("!=", value)))
    assert attributes.sortable_bytes(attributes.checked_attribute_value("a", value)) in same.points and len(same.points) <= 2
    assert exists.points == other.points == ()


def test_several_comparisons_and_several_names_are_a_condition_each() -> None:
    found = attribute_filter.attribute_conditions({"a": [Is(">=", 1), Is("<", 9)], "b": "x"})
    assert [condition.name for condition in found] == ["a", "a", "b"]
    assert attribute_filter.attribute_conditions(None) == attribute_filter.attribute_conditions({}) == ()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["a=1"], "is not a mapping of attributes to values or comparisons"),
        ("a=1", "is not a mapping of attributes to values or comparisons"),
        ({"a": None}, "None is not accepted here"),
        ({"a": [1, 2]}, "is not a list of comparisons"),
        ({"a": b"x"}, "is not a str, int, float, bool or datetime, but bytes"),
        ({"a": datetime(2026, 1, 1)}, "is not a time with its zone"),  # noqa: DTZ001  # which is the point
        ({"a": float("nan")}, "nan is not a finite number"),
    ],
)
def test_what_makes_no_sense_is_refused(wanted: Any, said: str) -> None:
    with pytest.raises(BadValue) as caught:
        attribute_filter.attribute_conditions(wanted)
    assert said in str(caught.value)


def test_a_comparison_takes_what_it_can_compare() -> None:
    with pytest.raises(BadValue, match="'==' is not one of =, !=, <, <=, >, >=, exists"):
        Is("==", 1)  # type: ignore[arg-type]  # which is the point
    with pytest.raises(BadValue, match="exists takes no value"):
        Is("exists", 1)
    with pytest.raises(BadValue, match="with = or !="):
        Is(">", True)
    with pytest.raises(BadName):
        attribute_filter.attribute_conditions({"a b": 1})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("customer=c1", ("customer", Is("=", "c1"))),
        (" customer = c 1 ", ("customer", Is("=", "c 1"))),
        ("cents>=500", ("cents", Is(">=", 500))),
        ("cents<=-5", ("cents", Is("<=", -5))),
        ("score<0.5", ("score", Is("<", 0.5))),
        ("score>1e3", ("score", Is(">", 1000.0))),
        ("vip!=true", ("vip", Is("!=", True))),
        ("vip", ("vip", Is("exists"))),
        ('code="500"', ("code", Is("=", "500"))),
        ('code="a=b"', ("code", Is("=", "a=b"))),
        ("code=a=b>c", ("code", Is("=", "a=b>c"))),
        ("code=", ("code", Is("=", ""))),
        ("due<2026-01-31T12:00:00Z", ("due", Is("<", DUE))),
        ("due>=2026-01-31T13:00:00+01:00", ("due", Is(">=", DUE))),
        ("day=2026-01-31", ("day", Is("=", "2026-01-31"))),
        ("a.b-c_1=x", ("a.b-c_1", Is("=", "x"))),
        ('code="=x"', ("code", Is("=", "=x"))),
        ("code= ", ("code", Is("=", ""))),
        ("größe>1", ("größe", Is(">", 1))),
    ],
)
def test_text_says_what_it_seems_to_say(text: str, found: tuple[str, Is]) -> None:
    assert attribute_filter.parse_filter([text]) == {found[0]: [found[1]]}


def test_texts_about_one_name_hold_together() -> None:
    assert attribute_filter.parse_filter(["a>1", "b", "a<9"]) == {"a": [Is(">", 1), Is("<", 9)], "b": [Is("exists")]}


def test_a_text_may_have_alternatives_and_several_texts_must_all_hold() -> None:
    a, b, c = ({"a": [Is("=", 1)]}, {"b": [Is("exists")]}, {"c": [Is("=", "x || y")]})
    assert attribute_filter.parse_filter(['a=1||b || c="x || y"']) == [a, b, c]
    assert attribute_filter.parse_filter(["a=1 || b", "c=2 || a<9"]) == [
        {"a": [Is("=", 1)], "c": [Is("=", 2)]},
        {"a": [Is("=", 1), Is("<", 9)]},
        {"b": [Is("exists")], "c": [Is("=", 2)]},
        {"b": [Is("exists")], "a": [Is("<", 9)]},
    ]
    assert attribute_filter.parse_filter(['a=5"||b']) == [{"a": [Is("=", '5"')]}, b], "a quote that is not closed quotes nothing"
    with pytest.raises(BadValue, match="at most 32, those of all alternatives together"):
        attribute_filter.parse_filter(["a || b"] * 40)


def test_a_list_has_alternatives_of_which_each_has_conditions() -> None:
    first: AttributeConditions = {"a": 1, "b": Is("exists")}
    second: AttributeConditions = {"a": [Is(">", 5), Is("<", 9)]}
    assert attribute_filter.filter_alternatives([first, second]) == (
        attribute_filter.attribute_conditions(first),
        attribute_filter.attribute_conditions(second),
    )
    assert attribute_filter.filter_alternatives(None) == attribute_filter.filter_alternatives({}) == ((),)
    empties: list[list[AttributeConditions]] = [[], [{}], [first, {}]]
    for empty in empties:
        with pytest.raises(BadValue, match="a list of mappings that each have conditions; leave them out"):
            attribute_filter.filter_alternatives(empty)
    with pytest.raises(BadValue, match="'a' is not a mapping of attributes"):
        attribute_filter.filter_alternatives(["a"])  # type: ignore[list-item]  # which is the point
    with pytest.raises(BadValue, match="at most 32"):
        attribute_filter.filter_alternatives([{f"a{number}": 1 for number in range(11)}] * 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=1 ||", "'a=1 ||' is not of the form name=value"),
        ("|| a=1", "|| separates alternatives"),
        ("", "of the form name=value"),
        ("=1", "of the form name=value"),
        ("a b", "of the form name=value"),
        ("a b=1", "of the form name=value"),
        ("a=null", "put text in double quotes"),
        ("a=[1]", "put text in double quotes"),
        ("due<2026-01-31T12:00:00", "a time with its zone"),
        ("due<2026-01-31T12:00", "a time with its zone"),
        ("due<2026-13-31 12:00:00Z", "a time with its zone"),
        ("vip>true", "'vip>true' is not ordered; compare True and False with = or !="),
        ("customer==c1", "attribute customer: '=c1' is not a value; put text that begins with a comparison sign in double quotes"),
        ("cents=>500", "'>500' is not a value"),
        ("cents=< 500", "'< 500' is not a value"),
    ],
)
def test_text_that_is_no_condition_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadValue) as caught:
        attribute_filter.parse_filter([text])
    assert said in str(caught.value)


@given(ANY)
def test_what_is_written_is_read_as_the_same(value: Any) -> None:
    read = attribute_filter.parse_filter([attribute_filter.attribute_text("a", value)])
    assert isinstance(read, dict)
    ((name, (found,)),) = read.items()
    assert (name, found) == ("a", Is("=", value)) and kind(found.value) is kind(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("c1", "a=c1"),
        ("c 1", 'a="c 1"'),
        ("", 'a=""'),
        ("5", 'a="5"'),
        ("=x", 'a="=x"'),
        ("x||y", 'a="x||y"'),
        ("true", 'a="true"'),
        (True, "a=true"),
        (5, "a=5"),
        (5.0, "a=5.0"),
        (DUE, "a=2026-01-31T12:00:00Z"),
    ],
)
def test_text_is_quoted_where_it_would_be_read_as_something_else_or_seem_to_be_several(value: Any, written: str) -> None:
    assert attribute_filter.attribute_text("a", value) == written
