"""The libraries behind expressions are optional: none is imported before an expression of its kind is compiled, and one that is missing is named."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure.core.errors import MissingExtra
from perdure.definitions.expr import cel, json_schema, jsonpath, regular_expressions

LIBRARIES = ("cel_expr_python", "re2", "jsonpath", "jsonschema_rs", "pydantic_monty")


@pytest.mark.slow
def test_nothing_is_imported_before_it_is_needed() -> None:
    program = f"""
import sys
from perdure.definitions.expr import cel, condition, json_schema, jsonpath, python_syntax, regular_expressions, template
from perdure.definitions.kinds.sandbox import python_conditions
class Scope:
    def step(self, id): return {{"n": 2}}
assert condition.compile_condition({{"all": [{{"ref": "@a.n", "gt": 1}}, {{"python": "def evaluate(o, c): return True"}}]}}).evaluate(Scope(), (True,))
assert template.compile_template("n: @{{a.n}}").evaluate(Scope()) == "n: 2"
found = [name for name in {LIBRARIES!r} if name in sys.modules]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Take libraries away."""
    caches: tuple[Any, ...] = (cel._cached, jsonpath._cached, jsonpath._library, regular_expressions.compile_regex, json_schema._validator)

    def take(*names: str) -> None:
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        for cache in caches:
            cache.cache_clear()

    yield take
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize(
    ("name", "use", "said"),
    [
        (
            "cel_expr_python",
            lambda: cel.compile_cel("self.a == 1"),
            'CEL needs cel-expr-python, which is not installed. Install it: pip install "perdure[definitions]"',
        ),
        ("jsonpath", lambda: jsonpath.compile_jsonpath("$.a"), "python-jsonpath"),
        ("re2", lambda: regular_expressions.compile_regex("a"), "google-re2"),
        ("jsonschema_rs", lambda: json_schema.compile_schema({}), "jsonschema-rs"),
    ],
)
def test_a_library_that_is_missing_is_named_with_what_to_install(without: Callable[..., None], name: str, use: Callable[[], Any], said: str) -> None:
    without(name)
    with pytest.raises(MissingExtra) as caught:
        use()
    assert said in str(caught.value)
    assert caught.value.extra == "definitions"
