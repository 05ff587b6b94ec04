"""Conditions in Python: they answer, and have nothing of the world, a second and 50 MB."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.core.errors import BadExpression, ExpressionFailed, MissingExtra
from perdure.definitions.kinds.sandbox import monty_pool
from perdure.definitions.kinds.sandbox.python_conditions import evaluate_conditions

GROWTH = '''
def evaluate(output, context):
    """
    output: current node output
    context: dict of all previous node outputs
    """
    revenue = output.get('revenue', 0)
    previous_revenue = context.get('last_month', {}).get('output', {}).get('revenue', 0)
    growth_rate = (revenue - previous_revenue) / previous_revenue if previous_revenue > 0 else 0
    if growth_rate > 0.2 and output.get('churn_rate', 1) < 0.05:
        return True
    return False
'''


@pytest.fixture(scope="module", autouse=True)
def sandbox() -> Iterator[None]:
    yield
    monty_pool.close_monty_pool()


def body(*lines: str) -> str:
    """A condition of these lines."""
    return "\n    ".join(("def evaluate(output, context):", *lines))


def test_each_source_is_asked_in_its_order() -> None:
    context = {"last_month": {"output": {"revenue": 100}}}
    sources = [GROWTH, body("return output['revenue'] == 100"), body("return 'last_month' in context")]
    assert evaluate_conditions(sources, {"revenue": 130, "churn_rate": 0.01}, context) == [True, False, True]
    assert evaluate_conditions([GROWTH], {"revenue": 110, "churn_rate": 0.01}, context) == [False]
    assert evaluate_conditions([], {}, {}) == []


def test_what_is_given_is_not_changed_and_nothing_is_left_for_the_next() -> None:
    output: dict[str, Any] = {"a": [1]}
    assert evaluate_conditions([body("output['a'].append(2)", "return len(output['a']) == 2")] * 2, output, {}) == [True, True]
    assert output == {"a": [1]}
    with pytest.raises(ExpressionFailed, match="NameError"):
        evaluate_conditions(["left = 1\n" + body("return True"), body("return left == 1")], {}, {})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("open('/etc/passwd').read()", "PermissionError"),
        ("open('/tmp/x', 'w')", "PermissionError"),
        ("__import__('os').system('true')", "NameError|not"),
        ("exec('import socket') or eval('socket.socket()')", "Error"),
        ("().__class__.__bases__[0].__subclasses__()", "AttributeError"),
        ("'x' * 10**9", "MemoryError"),
        ("10 ** 10 ** 10", "MemoryError|OverflowError"),
        ("[0] * 10**9", "MemoryError"),
        ("list(range(10**9))", "MemoryError|TimeoutError"),
        ("evaluate(output, context)", "RecursionError"),
        ("print('x' * 10**7)", "MemoryError"),
        ("1 / 0", "ZeroDivisionError"),
        ("input('?')", "Error"),
    ],
)
def test_there_is_nothing_to_reach_and_no_end_of_memory(line: str, said: str) -> None:
    with pytest.raises(ExpressionFailed, match=said) as caught:
        evaluate_conditions([body("return True"), body(f"return bool({line})")], {}, {})
    assert caught.value.where == "/1"
    assert len(str(caught.value)) < 400
    assert evaluate_conditions([body("return True")], {}, {}) == [True]


@pytest.mark.slow
def test_it_has_a_second() -> None:
    began_s = time.perf_counter()
    with pytest.raises(ExpressionFailed, match="TimeoutError"):
        evaluate_conditions([body("while True: pass")], {}, {})
    assert 0.5 < time.perf_counter() - began_s < 4
    assert evaluate_conditions([body("return True")], {}, {}) == [True]


@pytest.mark.slow
def test_what_it_is_given_counts_as_its_memory() -> None:
    with pytest.raises(ExpressionFailed, match=r"[Mm]emory"):
        evaluate_conditions([body("return True")], ["x" * 1000] * 60_000, {})


@pytest.mark.parametrize(("returned", "kind"), [("1", "a number"), ("None", "null"), ("'yes'", "text"), ("output", "a mapping")])
def test_what_is_neither_true_nor_false_is_an_error(returned: str, kind: str) -> None:
    with pytest.raises(ExpressionFailed, match=f"evaluate gave {kind}, and a condition is true or false"):
        evaluate_conditions([body(f"return {returned}")], {}, {})


@pytest.mark.parametrize("source", ["import os\n" + body("return True"), body("from time import time", "return True"), "x = 1", body("return (")])
def test_what_imports_or_defines_nothing_is_not_run(source: str) -> None:
    with pytest.raises(BadExpression):
        evaluate_conditions([source], {}, {})


def test_several_threads_ask_at_once() -> None:
    answers: list[list[bool]] = []
    threads = [threading.Thread(target=lambda: answers.append(evaluate_conditions([body("return output > 1")] * 3, 2, {}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [[True] * 3] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_is_refused_and_does_not_hang() -> None:
    assert evaluate_conditions([body("return True")], {}, {}) == [True]
    child = os.fork()
    if child == 0:
        try:
            evaluate_conditions([body("return True")], {}, {})
        except ExpressionFailed as refused:
            os._exit(0 if "spawn" in refused.hint else 2)
        except BaseException:
            os._exit(3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert evaluate_conditions([body("return True")], {}, {}) == [True]


def test_a_sandbox_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(MissingExtra, match=r"perdure\[sandbox\]"):
        evaluate_conditions([body("return True")], {}, {})
