"""Claims about operations: how long to wait between tries, and what replay takes for the same."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.ops import Call, Keep, Op, Receive, Retry, Send, Sleep, Spawn, kind, same, target
from perdure.core.paths import Key

STEADY = Retry(jitter=0.0)


def test_waits_double_up_to_a_minute() -> None:
    assert [STEADY.delay_s(failures, "seed") for failures in range(1, 9)] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


@given(st.integers(1, 10**12), st.floats(0, 1e9), st.floats(1, 1e9), st.floats(0, 1e9), st.floats(0, 1), st.text())
def test_a_wait_is_finite_and_between_its_longest_and_that_less_the_jitter(
    failures: int, wait_s: float, factor: float, max_wait_s: float, jitter: float, seed: str
) -> None:
    retry = Retry(10**12, wait_s, factor, max_wait_s, jitter)
    longest_s = Retry(10**12, wait_s, factor, max_wait_s, 0.0).delay_s(failures, seed)
    delay_s = retry.delay_s(failures, seed)
    assert math.isfinite(delay_s) and longest_s <= max_wait_s
    assert longest_s * (1 - jitter) * (1 - 1e-12) <= delay_s <= longest_s
    assert retry.delay_s(failures, seed) == delay_s


@pytest.mark.parametrize("factor", [1.0, 2.0, 3.0, 1e300])
def test_however_many_tries_failed_the_wait_does_not_overflow(factor: float) -> None:
    assert Retry(factor=factor, jitter=0.0).delay_s(10**9, "seed") == (1.0 if factor == 1 else 60.0)
    assert Retry(wait_s=0.0, factor=factor).delay_s(10**9, "seed") == 0.0


def test_executions_that_failed_together_do_not_come_back_together() -> None:
    delays = [Retry().delay_s(3, f"execution {number}") for number in range(100)]
    assert len(set(delays)) == 100 and all(3.6 <= delay <= 4.0 for delay in delays) and max(delays) - min(delays) > 0.3


KEY = Key("acme", "order", "1")
SAME: list[tuple[Op, Op]] = [
    (Call("pay", b"1"), Call("pay", b"2", retry=STEADY, timeout_s=3.0)),
    (Sleep(1.0), Sleep(until_s=9.0)),
    (Receive(("a", "b")), Receive(("a", "b"), 5, True, 3.0)),
    (Spawn("ship", "1"), Spawn("ship", "2", 3, b"x")),
    (Send(KEY, "hello"), Send(Key("acme", "order", "2"), "hello", b"body")),
    (Keep(b"1"), Keep(b"2")),
    (Keep(b"1", "turn", "a"), Keep(b"2", "turn", "a")),
]
DIFFERENT: list[tuple[Op, Op]] = [
    (Call("pay"), Call("ship")),
    (Call("pay"), Call("pay", queue="gpu")),
    (Call("sleep"), Sleep(1.0)),
    (Receive(("a",)), Receive(("b",))),
    (Receive(("a", "b")), Receive(("b", "a"))),
    (Spawn("ship", "1"), Spawn("order", "1")),
    (Send(KEY, "hello"), Send(KEY, "bye")),
    (Send(KEY, "hello"), Send(Key("acme", "audit", "1"), "hello")),
    (Keep(b"1", "state", "a"), Keep(b"1", "state", "b")),
    (Keep(b"1", "state", "a"), Keep(b"1", "stream", "a")),
    (Keep(b"1", "branches", "join a"), Keep(b"1", "branches", "join b")),
    (Keep(b"1", "state", "a"), Keep(b"1", label="a")),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=lambda op: kind(op))
def test_replay_does_not_compare_arguments_times_and_options(one: Op, other: Op) -> None:
    assert same(one, one) and same(one, other) and same(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=lambda op: f"{kind(op)} {target(op)}")
def test_replay_compares_kind_and_target(one: Op, other: Op) -> None:
    assert not same(one, other) and not same(other, one)


def test_kinds_are_words() -> None:
    ops: list[Op] = [Call("a"), Sleep(), Receive(("a",)), Spawn("a", "b"), Send(KEY, "a"), Keep()]
    assert [kind(op) for op in ops] == ["call", "sleep", "receive", "spawn", "send", "keep"]
