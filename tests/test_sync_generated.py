"""Claims about the sync face of the SDK: it is what the generator makes of the async one, and covers all of it."""

import ast

import pytest

from tools import make_sync

pytest.importorskip("ruff")  # which the generator formats with


@pytest.mark.slow
@pytest.mark.parametrize("path", make_sync.PATHS)
def test_a_sync_module_is_what_the_generator_makes_of_the_async_one(path: str) -> None:
    assert make_sync.sync_module(path) == (make_sync.PACKAGE / path).read_text(encoding="utf-8"), "run: python -m tools.make_sync"


@pytest.mark.slow
@pytest.mark.parametrize("path", make_sync.PATHS)
def test_a_method_that_was_changed_or_removed_by_mistake_is_made_again(path: str) -> None:
    text = (make_sync.PACKAGE / path).read_text(encoding="utf-8")
    lines = text.splitlines()
    generated = next(
        name for name in ("groups", "keys", "history", "create_new", "approval_count", "set_input", "pause", "result", "sleep") if f"    def {name}(" in text
    )
    (function,) = (one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef) and one.name == generated)
    removed = "\n".join((*lines[: function.lineno - 1], *lines[function.end_lineno :], ""))
    changed = "\n".join((*lines[: function.body[0].lineno - 1], "        raise NotImplementedError", *lines[function.end_lineno :], ""))
    assert make_sync.sync_module(path, removed) == make_sync.sync_module(path, changed) == text


def test_every_module_says_how_it_is_made() -> None:
    for path in make_sync.PATHS:
        assert "python -m tools.make_sync" in (ast.get_docstring(ast.parse((make_sync.PACKAGE / path).read_text(encoding="utf-8"))) or "")
