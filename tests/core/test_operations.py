"""Claims about operations: how long to wait between tries, and what replay takes for the same."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.operations import (
    CallOperation,
    KeepOperation,
    Operation,
    ReceiveOperation,
    RetryPolicy,
    SendOperation,
    SleepOperation,
    SpawnOperation,
    is_same_operation,
    operation_kind,
    operation_target,
)
from perdure.core.paths import Key

STEADY = RetryPolicy(jitter=0.0)


def test_waits_double_up_to_a_minute() -> None:
    assert [STEADY.delay_s(failures, "seed") for failures in range(1, 9)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


@given(st.integers(1, 10**12), st.floats(0, 1e9), st.floats(1, 1e9), st.floats(0, 1e9), st.floats(0, 1), st.text())
def test_a_wait_is_finite_and_between_its_longest_and_that_less_the_jitter(
    failures: int, wait_s: float, factor: float, max_wait_s: float, jitter: float, seed: str
) -> None:
    retry = RetryPolicy(10**12, wait_s, factor, max_wait_s, jitter)
    longest_s = RetryPolicy(10**12, wait_s, factor, max_wait_s, 0.0).delay_s(failures, seed)
    delay_s = retry.delay_s(failures, seed)
    assert math.isfinite(delay_s) and longest_s <= max_wait_s
    assert longest_s * (1 - jitter) * (1 - 1e-12) <= delay_s <= longest_s
    assert retry.delay_s(failures, seed) == delay_s


@pytest.mark.parametrize("factor", [1.0, 2.0, 3.0, 1e300])
def test_however_many_tries_failed_the_wait_does_not_overflow(factor: float) -> None:
    assert RetryPolicy(factor=factor, jitter=0.0).delay_s(10**9, "seed") == (1.0 if factor == 1 else 60.0)
    assert RetryPolicy(wait_s=0.0, factor=factor).delay_s(10**9, "seed") == 0.0


def test_executions_that_failed_together_do_not_come_back_together() -> None:
    delays = [RetryPolicy().delay_s(3, f"execution {number}") for number in range(100)]
    assert len(set(delays)) == 100 and all(3.6 <= delay <= 4.0 for delay in delays) and max(delays) - min(delays) > 0.3


KEY = Key("acme", "order", "1")
SAME: list[tuple[Operation, Operation]] = [
    (CallOperation("pay", b"1"), CallOperation("pay", b"2", retry=STEADY, timeout_s=3.0)),
    (SleepOperation(1.0), SleepOperation(until_s=9.0)),
    (ReceiveOperation(("a", "b")), ReceiveOperation(("a", "b"), 5, True, 3.0)),
    (SpawnOperation("ship", "1"), SpawnOperation("ship", "2", 3, b"x")),
    (SendOperation(KEY, "hello"), SendOperation(Key("acme", "order", "2"), "hello", b"body")),
    (KeepOperation(b"1"), KeepOperation(b"2")),
    (KeepOperation(b"1", "turn", "a"), KeepOperation(b"2", "turn", "a")),
]
DIFFERENT: list[tuple[Operation, Operation]] = [
    (CallOperation("pay"), CallOperation("ship")),
    (CallOperation("pay"), CallOperation("pay", queue="gpu")),
    (CallOperation("sleep"), SleepOperation(1.0)),
    (ReceiveOperation(("a",)), ReceiveOperation(("b",))),
    (ReceiveOperation(("a", "b")), ReceiveOperation(("b", "a"))),
    (SpawnOperation("ship", "1"), SpawnOperation("order", "1")),
    (SendOperation(KEY, "hello"), SendOperation(KEY, "bye")),
    (SendOperation(KEY, "hello"), SendOperation(Key("acme", "audit", "1"), "hello")),
    (KeepOperation(b"1", "state", "a"), KeepOperation(b"1", "state", "b")),
    (KeepOperation(b"1", "state", "a"), KeepOperation(b"1", "stream", "a")),
    (KeepOperation(b"1", "branches", "join a"), KeepOperation(b"1", "branches", "join b")),
    (KeepOperation(b"1", "state", "a"), KeepOperation(b"1", label="a")),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=lambda op: operation_kind(op))
def test_replay_does_not_compare_arguments_times_and_options(one: Operation, other: Operation) -> None:
    assert is_same_operation(one, one) and is_same_operation(one, other) and is_same_operation(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=lambda op: f"{operation_kind(op)} {operation_target(op)}")
def test_replay_compares_kind_and_target(one: Operation, other: Operation) -> None:
    assert not is_same_operation(one, other) and not is_same_operation(other, one)


def test_kinds_are_words() -> None:
    ops: list[Operation] = [CallOperation("a"), SleepOperation(), ReceiveOperation(("a",)), SpawnOperation("a", "b"), SendOperation(KEY, "a"), KeepOperation()]
    assert [operation_kind(op) for op in ops] == ["call", "sleep", "receive", "spawn", "send", "keep"]
