"""Whatever text the {{ }} language is given, it is compiled or refused, and what is compiled has a value or fails: nothing else happens."""

import random
from typing import Any

import msgspec
import pytest

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr import braces
from perdure.definitions.expr.braces_filters import FILTERS
from tests.definitions.expr.test_braces import DATA, Reads

PIECES = [
    *"{{ }} {{{ }}} { } [ ] ( ) . , : ? ?. ?: ?? || && ! - + * / % == != === !== < <= > >= in | 'a' '{{x}}' ' \" \\ 1 2.5 0x1f 1e9 .5".split(),  # noqa: SIM905  # a paragraph reads better than forty lines
    *"null true items words nested name steps steps.a.output.data lastOutput loop input secrets.K now nothing [.price [0] ['a-b'] é # & @ @{x} \x00".split(),  # noqa: SIM905  # the same
    *(f"|{name}{arguments}" for name in FILTERS for arguments in ("", "('price', 1)")),
    *("\n", "\t"),
]

SCOPE = Reads({"vars": DATA, "loop": {"item": 1}, "lastOutput": {"type": "tool", "data": [1]}}, {"a": {"type": "tool", "data": {"b": [1, None]}, "meta": {}}})


def judged(text: str) -> tuple[int, int]:
    """Compile and evaluate `text` in both ways; how often it could be compiled, and evaluated."""
    made, found = 0, 0
    for compile in (braces.compile_braces_text, braces.compile_braces_condition):
        try:
            expression = compile(text)
            made += 1
            value: Any = expression.evaluate(SCOPE)
            found += 1
        except (BadExpression, ExpressionFailed) as error:
            told(error)
            continue
        msgspec.json.encode(value)
        if compile is braces.compile_braces_text:
            braces.rename_braces_steps(text, {"a": "b"})
    return made, found


def told(error: BadExpression | ExpressionFailed) -> None:
    """An error says what is wrong and what to do."""
    assert error.what
    assert error.hint


def searched(seed: int, count: int) -> tuple[int, int]:
    """Judge `count` texts; how many could be compiled, and evaluated."""
    chance = random.Random(seed)
    made, found = 0, 0
    for number in range(count):
        inner = "".join(chance.choice(PIECES) + chance.choice(("", "", " ")) for _ in range(chance.randrange(1, 12)))
        text = inner if number % 3 == 0 else f"{{{{ {inner} }}}}"
        one, other = judged(text)
        made, found = made + one, found + other
    return made, found


@pytest.mark.slow
def test_any_text_is_compiled_or_refused() -> None:
    made, found = searched(3, 6_000)
    assert made > 300
    assert found > 300


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(8))
def test_any_of_many_texts_is_compiled_or_refused(seed: int) -> None:
    assert searched(1_000 + seed, 100_000)[0] > 3_000


def expression(chance: random.Random, depth: int) -> str:
    """An expression that can be read."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice(
            ("1", "2.5", "'a'", "null", "true", "items", "words", "nested['a-b'].c", "name", "nothing.x", "steps.a.output.data.b", "lastOutput.data")
        )

    def inner() -> str:
        return expression(chance, depth - 1)

    match chance.randrange(8):
        case 0:
            return f"({inner()} {chance.choice(('+', '-', '*', '/', '%'))} {inner()})"
        case 1:
            return f"({inner()} {chance.choice(('==', '!=', '===', '!==', '<', '<=', '>', '>=', 'in'))} {inner()})"
        case 2:
            return f"({inner()} {chance.choice(('||', '&&', '??'))} {inner()})"
        case 3:
            return f"({inner()} ? {inner()} : {inner()})"
        case 4:
            return f"[{inner()}, {inner()}]"
        case 5:
            return f"{{a: {inner()}, 'b c': {inner()}}}"
        case 6:
            return f"({chance.choice(('!', '-', '+'))}{inner()})"
        case _:
            name = chance.choice(list(FILTERS))
            known = FILTERS[name]
            arguments = ", ".join(inner() for _ in range(chance.randint(known.least, known.most)))
            return f"({inner()})|{name}({arguments})"


@pytest.mark.slow
def test_any_expression_that_can_be_read_has_a_value_or_says_why_not() -> None:
    chance = random.Random(11)
    found = sum(judged(f"{{{{ {expression(chance, 4)} }}}}")[1] > 0 for _ in range(800))
    assert found > 600
