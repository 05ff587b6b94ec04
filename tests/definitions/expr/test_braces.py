"""The {{ }} language of seed 003: what its expressions come to, and what they refuse."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr import braces, condition, lenient_values, template
from perdure.definitions.expr.braces_filters import FILTERS
from perdure.definitions.expr.references import ExpressionRead
from tests.seeds.examples_003 import EXAMPLES_003, LOOP, ONE_BY_ONE, SOME, STEPS

NOW_S = 1_700_000_000.25


class Reads:
    """A scope of plain mappings."""

    def __init__(self, roots: dict[str, Any] | None = None, steps: dict[str, Any] | None = None) -> None:
        self.roots = {"execution": {"now_s": NOW_S, "tenant": "org_1"}, "vars": {}, "input": {}} | (roots or {})
        self.steps = steps or {}

    def root(self, name: str) -> Any:
        return self.roots[name]

    def step(self, id: str) -> Any:
        return self.steps[id]["data"]

    def envelope(self, id: str) -> Any:
        return self.steps[id]


def of(text: str, **variables: Any) -> Any:
    """What an expression comes to with these variables."""
    return braces.compile_braces_text(f"{{{{ {text} }}}}").evaluate(Reads({"vars": variables}))


SEED = Reads({"vars": {"pageSize": 50}, "input": {"email": "ann@example.com"}, "loop": LOOP, "lastOutput": SOME}, STEPS)


@pytest.mark.parametrize(("row", "expression", "value"), EXAMPLES_003, ids=lambda one: one if isinstance(one, str) else "")
def test_the_examples_of_the_seed_come_to_what_they_say(row: str, expression: str, value: Any) -> None:
    assert braces.compile_braces_text(f"{{{{{expression}}}}}").evaluate(SEED) == value


def test_with_batches_of_one_the_item_stands_in_the_loop() -> None:
    scope = Reads({"loop": ONE_BY_ONE})
    assert braces.compile_braces_text("{{ loop.item.id }} at {{ loop.index }}").evaluate(scope) == "3 at 3"


ARITHMETIC = [
    ("1 + 2 * 3", 7),
    ("(1 + 2) * 3", 9),
    ("10 / 4", 2.5),
    ("10 / 5", 2),
    ("7 % 3", 1),
    ("-7 % 3", -1),
    ("7 % 0", None),
    ("1 / 0", None),
    ("0 / 0", None),
    ("2 - -1", 3),
    ("- - 2", 2),
    ("+'12' + 1", 13),
    ("'5' * '2'", 10),
    ("'5' - 2", 3),
    ("'5' + 2", "52"),
    ("5 + 2 + '!'", "7!"),
    ("null + 1", 1),
    ("true + 1", 2),
    ("'a' + null", "anull"),
    ("'a' + [1, [2, null]]", "a1,2,"),
    ("'' + {}", "[object Object]"),
    ("'x' * 2", None),
    ("'' * 2", 0),
    ("' 12 ' * 1", 12),
    ("'0x1f' * 1", 31),
    ("'1_000' * 1", None),
    ("'Infinity' * 1", None),
    ("0.1 + 0.2", 0.1 + 0.2),
    ("9007199254740993 + 0", 9007199254740992),
    ("1e3", 1000),
    (".5 * 2", 1),
    ("0xff", 255),
]

LOGIC = [
    ("null || 2", 2),
    ("0 || ''", ""),
    ("0 || '' || 'x' || 1", "x"),
    ("1 && 2", 2),
    ("0 && 2", 0),
    ("null && 2", None),
    ("1 && 2 && 3", 3),
    ("1 || 0 && 0", 1),
    ("null ?? 0 ?? 1", 0),
    ("false ?? 1", False),
    ("[] || 1", []),
    ("{} && 1", 1),
    ("!0", True),
    ("!!'a'", True),
    ("![]", False),
    ("true ? 1 : 2", 1),
    ("0 ? 1 : 0 ? 2 : 3", 3),
    ("5 ?: 6", 5),
    ("0 ?: 6", 6),
    ("1 < 2 ? 'a' : 'b'", "a"),
]

COMPARED = [
    ("null == undefined", True),
    ("null == 0", False),
    ("null == ''", False),
    ("null >= 0", True),
    ("null > 0", False),
    ("0 == ''", True),
    ("0 == '0'", True),
    ("'' == '0'", False),
    ("1 == '1.0'", True),
    ("1 === '1'", False),
    ("1 === 1.0", True),
    ("1 !== '1'", True),
    ("1 != '1'", False),
    ("true == 1", True),
    ("true === 1", False),
    ("true == 'true'", False),
    ("'a' == 'a'", True),
    ("[1, 2] == '1,2'", True),
    ("[1, 2] == [1, 2]", True),
    ("[1] === [true]", False),
    ("{a: [1]} == {'a': [1]}", True),
    ("{a: 1} == {a: 2}", False),
    ("'x' == 1", False),
    ("'10' > '9'", False),
    ("'10' > 9", True),
    ("2 >= 2", True),
    ("2 <= 1", False),
    ("'b' >= 'a'", True),
    ("'x' < 1", False),
    ("'x' >= 1", False),
    ("'b' in ['a', 'b']", True),
    ("1 in ['1']", False),
    ("'el' in 'hello'", True),
    ("'a' in {a: null}", True),
    ("1 + 1 == 2 && 3 > 2", True),
]


@pytest.mark.parametrize(("text", "value"), [*ARITHMETIC, *LOGIC, *COMPARED])
def test_operators_mean_what_they_mean_in_javascript(text: str, value: Any) -> None:
    found = of(text)
    assert found == value
    assert type(found) is type(value)


DATA: dict[str, Any] = {
    "items": [
        {"id": 1, "name": "b", "price": 7, "tags": ["x"]},
        {"id": 2, "name": "a", "price": 5},
        {"id": 3, "price": None},
        {"id": 4, "name": "c", "price": 9.5},
    ],
    "words": ["b", "a", "b"],
    "nested": {"a-b": {"c": [1, [2, 3]]}, "length": 9},
    "name": " Ann ",
    "day": "2023-11-01",
}

ACCESS = [
    ("nested['a-b'].c[1][0]", 2),
    ("nested.length", 9),
    ("words.length", 3),
    ("words[5]", None),
    ("words[-1]", None),
    ("words['1']", "a"),
    ("words[1.5]", None),
    ("words['length']", 3),
    ("name[1]", "A"),
    ("nothing.of.this['is'][0].there", None),
    ("items[1]?.name", "a"),
    ("items[words.length - 2].name", "a"),
    ("items[.price >= 7].length", 2),
    ("items[.name == 'a'][0].price", 5),
    ("items[.tags[0] == 'x']|map('id')", [1]),
    ("words[.x]", []),
    ("name.x", None),
    ("[1, 2,][1]", 2),
    ("{a: 1, 'b c': [2]}['b c'][0]", 2),
    ("'it\\'s' + \"\\n\\u00e9\"", "it's\né"),
    ("'\\d'", "\\d"),
    ("'\\ud83d\\ude00'", "😀"),
    ("$x", None),
    ("ünïcode", None),
]

FILTERED = [
    ("words|length", 3),
    ("name|length", 5),
    ("nested|length", 2),
    ("nothing|length", 0),
    ("5|length", 0),
    ("words|first", "b"),
    ("words|last", "b"),
    ("[]|first", None),
    ("items|map('name')", ["b", "a", "c"]),
    ("items|map('tags[0]')", ["x"]),
    ("items|map('tags.0')", ["x"]),
    ("items|map('price * 2')|first", 14),
    ("5|map('x')", []),
    ("items|filter('price >= 7')|map('id')", [1, 4]),
    ("items|filter('price <= 7')|map('id')", [1, 2]),
    ("items|filter('price < 7')|map('id')", [2]),
    ("items|filter(\"name == 'a' || price > 9\")|map('id')", [2, 4]),
    ("items|filter('name', 'a')|map('id')", [2]),
    ("items|filterBy('price', 9.5)|map('id')", [4]),
    ("[1, 5, 9]|filter('item > 4')", [5, 9]),
    ("items|find('id', 3)|default('none')", {"id": 3, "price": None}),
    ("items|find('id', 7)", None),
    ("items|find('price > 8').name", "c"),
    ("items|sort('price')|map('id')", [2, 1, 4, 3]),
    ("items|sort('price', 'desc')|map('id')", [3, 4, 1, 2]),
    ("[3, '2', 1, null, 'a']|sort", [1, 3, "2", "a", None]),
    ("words|join", "b,a,b"),
    ("words|join(' - ')", "b - a - b"),
    ("[1, null, {a: 1}]|join('|')", '1||{"a":1}'),
    ("words|unique", ["b", "a"]),
    ("[1, '1', true, 1.0, {a: 1}, {a: 1}]|unique", [1, "1", True, {"a": 1}]),
    ("items|unique('price > 6')|map('id')", [1, 2]),
    ("[1, [2, [3]]]|flatten", [1, 2, [3]]),
    ("words|concat(['z'])|length", 4),
    ("nothing|concat(words)|length", 3),
    ("words|reverse", ["b", "a", "b"]),
    ("'abc'|reverse", "cba"),
    ("[1, 2, 3]|slice(1)", [2, 3]),
    ("[1, 2, 3]|slice(0, -1)", [1, 2]),
    ("'hello'|slice(1, 3)", "el"),
    ("[1, 2, 3, 4, 5]|chunk(2)", [[1, 2], [3, 4], [5]]),
    ("words|includes('a')", True),
    ("words.includes('z')", False),
    ("'hello'.includes('ell')", True),
    ("words|contains('a')", True),
    ("words|hasOverlap(['z', 'a'])", True),
    ("nested|keys", ["a-b", "length"]),
    ("nested|values|last", 9),
    ("{a: 1}|entries", [{"key": "a", "value": 1}]),
    ("5|keys", []),
    ("nothing|default('x')", "x"),
    ("0|default('x')", 0),
    ("[1, '2', 3.5]|sum", 6.5),
    ("items|sum('price')", 21.5),
    ("[]|sum", 0),
    ("[3, 1, 2]|min", 1),
    ("items|max('price')", 9.5),
    ("[]|max", None),
    ("[1, 2]|average", 1.5),
    ("2.5|round", 3),
    ("(-2.5)|round", -2),
    ("-2.5|round", -3),
    ("1.005|round(1)", 1),
    ("'x'|round", None),
    ("1.5|floor", 1),
    ("1.5|ceil", 2),
    ("(-2)|abs", 2),
    ("name|upper", " ANN "),
    ("name|trim|lower", "ann"),
    ("name.trim().toUpperCase()", "ANN"),
    ("name|trim|startsWith('A')", True),
    ("name|endsWith(' ')", True),
    ("'a,b'|split", ["a", "b"]),
    ("'ab'|split('')", ["a", "b"]),
    ("'a-b-c'|replace('-', '+')", "a+b+c"),
    ("'a1'|matches('^[a-z][0-9]$')", True),
    ("'aaa'|matches('b')", False),
    ("12.0|string", "12"),
    ("[1]|string", "[1]"),
    ("'1.50'|number", 1.5),
    ("'x'|boolean", True),
    ("{a: 1/0, b: 'é'}|json", '{"a":null,"b":"é"}'),
    ("'{\"a\": [1]}'|parseJSON", {"a": [1]}),
    ("'nope'|parseJSON", None),
    ("items|slice(0, 2)|formatList('{id}: {name}', '; ')", "1: b; 2: a"),
    ("words|formatList('x')", "b\na\nb"),
    ("day|daysAgo", 13),
    ("daysAgo(day) > 10", True),
    ("day|hoursAgo", 334),
    ("1699999940|minutesAgo", 1),
    ("1699999940000|minutesAgo", 1),
    ("'soon'|daysAgo", -1),
    ("null|daysAgo", -1),
    ("day|parseDate", 1698796800000),
    ("1698796800|isoDate", "2023-11-01T00:00:00.000Z"),
    ("'2023-11-01T02:00:00+02:00'|isoDate", "2023-11-01T00:00:00.000Z"),
    ("'x'|isoDate", ""),
    ("day|epochSeconds", 1698796800),
    ("day|isBefore('2023-12-01')", True),
    ("day|isAfter('x')", False),
    ("now", "2023-11-14T22:13:20.250Z"),
    ("nowMs", 1700000000250),
]


@pytest.mark.parametrize(("text", "value"), [*ACCESS, *FILTERED])
def test_values_are_taken_and_filtered(text: str, value: Any) -> None:
    assert of(text, **DATA) == value


def test_each_filter_stands_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/braces.md").read_text(encoding="utf-8")
    assert [name for name in FILTERS if f"`{name}`" not in page and f"`{name}(" not in page] == []


def test_each_filter_stands_in_the_table_above() -> None:
    told = " ".join(text for text, _ in FILTERED)
    assert [name for name in FILTERS if name not in told and name not in ("size", "toLowerCase", "toString")] == []


TEXTS = [
    ("{{n}}", 3),
    ("{{ n }} ", "3 "),
    ("{{n}}{{n}}", "33"),
    ("{{none}}", None),
    ("a{{none}}b", "ab"),
    ("{{yes}} {{x}} {{list}} {{map}}", 'true 1.5 [1,null] {"a":"b"}'),
    ("{{{n}}}", 3),
    ("{{{a: n}}}", {"a": 3}),
    ("{{ {a: {b: n}} }}", {"a": {"b": 3}}),
    ("{{ '}}' + \"{{\" }}", "}}{{"),
    ("{{& n }}", 3),
    ("{{ big }}|{{ small }}|{{ one }}", "1e+21|1e-7|1"),
    ("no braces", "no braces"),
    ("{ {n} }", "{ {n} }"),
    ("{{n}} it's '", "3 it's '"),
]


@pytest.mark.parametrize(("text", "value"), TEXTS)
def test_a_whole_text_keeps_its_kind_and_other_text_takes_the_value_in(text: str, value: Any) -> None:
    scope = Reads({"vars": {"n": 3, "yes": True, "x": 1.5, "list": [1, None], "map": {"a": "b"}, "big": 1e21, "small": 1e-7, "one": 1.0}})
    found = braces.compile_braces_text(text).evaluate(scope)
    assert found == value
    assert type(found) is type(value)


CONDITIONS = [
    ("n >= 3", True),
    ("n <= 2", False),
    ("{{ n >= 3 }}", True),
    ("{{n}} == 3 && {{name}} == 'Ann'", True),
    ("'{{name}}' == 'Ann' && \"{{n}}!\" == '3!'", True),
    ("'{{name}}' == name", True),
    ("steps.x.output.data != null", False),
    ("none", False),
    ("[]", True),
    ("name", True),
    ("''", False),
    ("items|length > 0", False),
]


@pytest.mark.parametrize(("text", "holds"), CONDITIONS)
def test_a_condition_is_true_or_false_with_braces_or_without(text: str, holds: bool) -> None:
    scope = Reads({"vars": {"n": 3, "name": "Ann"}})
    assert braces.compile_braces_condition(text).evaluate(scope) is holds
    assert condition.compile_condition({"braces": text}).evaluate(scope) is holds


def test_what_stands_in_a_value_is_never_read_as_an_expression_again() -> None:
    scope = Reads({"vars": {"said": "' || true || '{{secrets.KEY}}"}})
    assert braces.compile_braces_condition("'{{said}}' == 'x'").evaluate(scope) is False
    assert braces.compile_braces_text("{{said}}!").evaluate(scope) == "' || true || '{{secrets.KEY}}!"


REFUSED = [
    ("{{", "the end is unexpected"),
    ("{{ }}", "nothing between"),
    ("{{ n", "'}}' was expected"),
    ("{{ n }", "'}}' was expected"),
    ("{{#items}}", "opens a section"),
    ("{{/items}}", "opens a section"),
    ("{{ n m }}", "'m' is unexpected"),
    ("{{ n + }}", "'}' is unexpected"),
    ("{{ n = 1 }}", "'=' is not part"),
    ("{{ n & 1 }}", "'&' is not part"),
    ("{{ n|lenght }}", "Did you mean 'length'"),
    ("{{ n|Upper }}", "Did you mean 'upper'"),
    ("{{ n|map }}", "takes 1 arguments, found 0"),
    ("{{ n|join(1, 2) }}", "takes 0 to 1 arguments, found 2"),
    ("{{ f() }}", "f() has no argument"),
    ("{{ 'abc }}", "does not end"),
    ("{{ n. }}", "can't follow '.'"),
    ("{{ n| }}", "the name of a filter"),
    ("{{ a-b| }}", "the name of a filter"),
    ("{{ [1, 2 }}", "',' was expected"),
    ("{{ (1 }}", "')' was expected"),
    ("{{ {1 2} }}", "':' was expected"),
    ("{{ {[1]: 2} }}", "can't be a key"),
    ("{{ n ? 1 }}", "':' was expected"),
    ("{{ .price }}", "'.' is unexpected"),
    ("{{ steps }}", "all steps at once"),
    ("{{ secrets }}", "all secrets at once"),
    ("{{ secrets.A.b }}", "passed on"),
    ("{{ secrets.A + '1' }}", "passed on"),
    ("{{ secrets.A == 'x' }}", "passed on"),
    ("{{ secrets.A|length }}", "passed on"),
    ("{{ secrets[name] }}", "all secrets at once"),
    ("a {{ secrets.A || 1 }}", "passed on"),
    ("{{ " + "(" * 70 + "1" + ")" * 70 + " }}", "nests deeper than 64"),
    ("{{ " + "!" * 70 + "1 }}", "nests deeper than 64"),
    ("{{ " + "[" * 70 + "]" * 70 + " }}", "nests deeper than 64"),
    ("{{ " + "1 ? 1 : " * 70 + "1 }}", "nests deeper than 64"),
    ("{{ a" + "[a" * 70 + "]" * 70 + " }}", "nests deeper than 64"),
    ("{{ " + "1 + " * 20_000 + "1 }}", "characters"),
    ("{{ in }}", "'in' is unexpected"),
    ("{{ a ' }}", "does not end"),
    ("{{ \x00 }}", "is not part of the language"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=lambda one: one[:30])
def test_what_can_t_be_read_is_refused_with_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(BadExpression) as refused:
        braces.compile_braces_text(text, "/with/a")
    assert refused.value.where == "/with/a"
    assert why in str(refused.value)
    assert refused.value.hint


def test_a_secret_in_a_condition_is_refused() -> None:
    with pytest.raises(BadExpression, match="passed on"):
        braces.compile_braces_condition("secrets.A == 'x'")
    with pytest.raises(BadExpression, match="passed on"):
        braces.compile_braces_condition("'{{ secrets.A }}' == 'x'")


def test_a_secret_is_a_mark_alone_within_text_and_in_lists() -> None:
    scope = Reads({"vars": {"n": 3}})
    assert braces.compile_braces_text("{{ secrets.A }}").evaluate(scope) == {"@secret": "A"}
    assert braces.compile_braces_text("Bearer {{ secrets['A'] }}, {{ n }}").evaluate(scope) == {"@text": ["Bearer ", {"@secret": "A"}, ", ", "3"]}
    assert braces.compile_braces_text("{{ [secrets.A, {b: n ? secrets.B : 1}] }}").evaluate(scope) == [{"@secret": "A"}, {"b": {"@secret": "B"}}]


def test_names_are_of_the_loop_then_variables_then_the_input_then_null() -> None:
    scope = Reads({"vars": {"a": 1, "b": 2, "last": 7}, "input": {"a": 3, "c": 4}, "b": 5, "last": 6})
    assert [braces.compile_braces_text(f"{{{{ {name} }}}}").evaluate(scope) for name in ("a", "b", "c", "d", "last")] == [1, 5, 4, None, 7]


def test_the_organization_is_the_tenant_and_else_what_is_called_so() -> None:
    named = Reads({"vars": {"organizationId": "org_demo"}})
    assert braces.compile_braces_text("{{organizationId}}").evaluate(named) == "org_1"
    named.roots["execution"] = {"tenant": "default"}
    assert braces.compile_braces_text("{{organizationId}}").evaluate(named) == "org_demo"


def test_outputs_have_the_types_that_the_seed_names() -> None:
    scope = Reads({"lastOutput": {"type": "test", "data": True}}, {"a": {"type": "tool", "data": 1, "meta": {}}, "b": {"type": "approve", "data": {}}})
    texts = ("{{ steps.a.output.type }}", "{{ steps.b.stepType }}", "{{ lastOutput.type }}", "{{ steps.a.output.data }}")
    assert [braces.compile_braces_text(text).evaluate(scope) for text in texts] == ["action", "approval", "condition", 1]


def test_what_an_expression_reads_is_known_before_it_is_evaluated() -> None:
    reads = braces.compile_braces_text(
        "{{ steps.a.output.data.x[0]|map('y') }} {{ steps['b'].output }} {{ lastOutput.data }} {{ n.m }} {{ secrets.K }} {{ now }}"
    ).reads
    assert reads == {
        ExpressionRead("steps", "a", ("data", "x", 0), ""),
        ExpressionRead("steps", "b", (), ""),
        ExpressionRead("last", "", ("data",), ""),
        ExpressionRead("vars", "", ("n", "m"), ""),
        ExpressionRead("secrets", "", ("K",), ""),
        ExpressionRead("execution", "", ("now_s",), ""),
    }
    inside = braces.compile_braces_condition("x[y] > 0 && '{{ z }}' == loop.item").reads
    assert {(read.root, read.path) for read in inside} == {("vars", ("x",)), ("vars", ("y",)), ("vars", ("z",)), ("loop", ("item",))}


def test_a_template_takes_both_languages_and_says_where_each_reads() -> None:
    made = template.compile_template({"a": ["{{ n }}"], "b": "@vars.n", "c": "mail@{{ n }}", "d": "@@x"}, "null", expressions="braces")
    assert made.evaluate(Reads({"vars": {"n": 3}})) == {"a": [3], "b": 3, "c": "mail@3", "d": "@x"}
    assert made.reads == {ExpressionRead("vars", "", ("n",), where) for where in ("/a/0", "/b", "/c")}
    assert template.compile_template("{{ n }}").evaluate(Reads()) == "{{ n }}"
    with pytest.raises(BadExpression) as refused:
        template.compile_template({"a": ["{{ n"]}, "null", expressions="braces")
    assert refused.value.where == "/a/0"


def test_a_condition_of_braces_stands_among_others() -> None:
    both = condition.compile_condition({"all": [{"braces": "n > 1"}, {"ref": "@vars.n", "lt": 9}]})
    assert both.evaluate(Reads({"vars": {"n": 3}})) is True
    assert {read.where for read in both.reads} == {"/all/0/braces", "/all/1/ref"}
    with pytest.raises(BadExpression, match="braces holds"):
        condition.compile_condition({"braces": 5})


def test_steps_can_be_called_otherwise() -> None:
    names = {"loop": "loop_", "a-b": "c"}
    text = "steps.loop {{ steps.loop.output + x.steps.loop + steps['a-b'] }} {{ steps . loop }}"
    assert braces.rename_braces_steps(text, names) == "steps.loop {{ steps.loop_.output + x.steps.loop + steps['c'] }} {{ steps . loop_ }}"
    assert braces.rename_braces_steps("steps.loop.output == 'steps.loop'", names, whole=True) == "steps.loop_.output == 'steps.loop'"


def test_without_a_clock_the_time_is_an_error() -> None:
    with pytest.raises(ExpressionFailed, match="the time is not known"):
        braces.compile_braces_text("{{ now }}").evaluate(Reads({"execution": {}}), "/x")


BIG = {"big": ["x" * 1000] * 40_000, "rows": [{"a": list(range(50))}] * 20_000, "s": "a" * 1_000_000}
COSTLY = [
    "{{ [" + ", ".join(["big"] * 5000) + "]|json }}",
    "{{ big|join(s) }}",
    "{{ " + " + ".join(["s"] * 5000) + " }}",
    "{{ 'a'" + "|replace('a', 'aaaaaaaaaa')" * 100 + " }}",
    "{{ rows|filter(\"a|filter('item > 49')|length\") }}",
    "{{ [" + ", ".join(["big"] * 5000) + "] == [" + ", ".join(["big"] * 5000) + "] }}",
    "{{ big" + "|concat(big)" * 3000 + "|length }}",
    "{{s}}" * 5000,
    "{{ rows|formatList(s) }}",
]


@pytest.mark.slow
@pytest.mark.parametrize("text", COSTLY, ids=range(len(COSTLY)))
def test_what_costs_too_much_fails_soon(text: str) -> None:
    begun_s = time.monotonic()
    with pytest.raises(ExpressionFailed):
        braces.compile_braces_text(text).evaluate(Reads({"vars": BIG}))
    assert time.monotonic() - begun_s < 10


def test_conditions_in_conditions_nest_only_so_deep() -> None:
    deep: Any = []
    for _ in range(50):
        deep = [{"x": deep, "c": "x|filter(c)|length == 0"}]
    with pytest.raises(ExpressionFailed, match="nest deeper than 2"):
        of("deep|filter('x|filter(c)')", deep=deep)


def test_values_that_nest_without_end_are_refused() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    with pytest.raises(ExpressionFailed, match="nests deeper"):
        of("deep|json", deep=deep)
    with pytest.raises(ExpressionFailed, match="nests deeper"):
        of("deep == deep", deep=deep)


def test_a_pattern_that_is_none_fails_and_none_can_run_for_ever() -> None:
    with pytest.raises(ExpressionFailed, match="regular expression"):
        of("'a'|matches('(')")
    assert of("s|matches('(a+)+$')", s="a" * 5000 + "b") is False


def test_numbers_are_written_as_javascript_writes_them() -> None:
    written = {
        1.0: "1",
        -0.0: "0",
        0.1: "0.1",
        1e21: "1e+21",
        1e-7: "1e-7",
        1.5e-5: "0.000015",
        1e20: "100000000000000000000",
        123456789012345680000.0: "123456789012345680000",
        -2.5: "-2.5",
        math.inf: "Infinity",
        2**70: "1180591620717411303424",
    }
    assert {value: lenient_values.js_number_text(value) for value in written} == written


def test_what_was_compiled_is_kept() -> None:
    assert braces.compile_braces_text("{{ kept }}") is braces.compile_braces_text("{{ kept }}")


def test_values_stay_plain_data_whatever_is_calculated() -> None:
    found = of("[1/0, {a: 0/0}, '99999999999999999999'|parseJSON, 9 * 9e99]")
    assert found == json.loads(json.dumps(found))
    assert found[0] is None
    assert found[1] == {"a": None}
