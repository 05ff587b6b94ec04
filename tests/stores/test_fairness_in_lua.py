"""The fairness rule in Lua chooses what the one in Python chooses, for seeded random queues on a real Valkey."""

import random
from collections.abc import Iterator
from math import inf

import msgspec
import pytest
from redis import Redis

from perdure.stores.fairness import Candidate, QueueState, choose_candidates, next_lane_turn, next_start_at, rate_used_until, starts_allowed
from perdure.stores.protocol import QueueLimits
from perdure.stores.redis import FAIRNESS
from tests.stores.servers import valkey

pytestmark = pytest.mark.real

ASK = """
local asked = cmsgpack.unpack(ARGV[1])
local state, chosen, ready = asked.state, {}, {}
for i, one in ipairs(asked.ready) do ready[i] = {-one[3], one[4], one[1], lane = one[2], fresh = one[5]} end
for i, one in ipairs(choose(state, ready, asked.now_s, asked.most)) do chosen[i] = one[3] end
local limits, free_at_s = state.limits, state.free_at_s
local left = allowed(limits, free_at_s, asked.now_s)
local later = next_turn(free_at_s, asked.now_s)
return cmsgpack.pack({chosen, left, used(limits, free_at_s, asked.now_s, asked.most), next_free_at(limits, free_at_s), later})
"""
LANES = ["", "a", "b", "c\0", "日本"]
NOW_S = 1_000_000_000.0


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with valkey() as server, Redis.from_url(server.url) as client:
        yield client


@pytest.mark.parametrize("seed", range(4))
def test_it_chooses_what_the_rule_in_python_chooses(seed: int, redis: Redis) -> None:
    chance = random.Random(seed)
    script = redis.register_script(FAIRNESS + ASK)
    sizes = set()
    for case in range(3_000):
        state, ready, most = some_state(chance), some_candidates(chance), chance.choice([0, 1, 3, 10, 100])
        limits, free_at_s = state.limits, state.free_at_s
        chosen = [one.number for one in choose_candidates(state, ready, NOW_S, most)]
        sizes.add(len(chosen))
        times = [
            starts_allowed(limits, free_at_s, NOW_S),
            rate_used_until(limits, free_at_s, NOW_S, most),
            next_start_at(limits, free_at_s),
            next_lane_turn(free_at_s, NOW_S),
        ]
        asked = {"state": state._asdict(), "ready": ready, "now_s": NOW_S, "most": most}
        told: bytes = script(args=[msgspec.msgpack.encode(asked)])
        assert msgspec.msgpack.decode(told) == [chosen, *times], f"seed {seed}, case {case}: {asked}"
    assert len(sizes) > 20, "the cases are too much alike"


def some_state(chance: random.Random) -> QueueState:
    limits = QueueLimits(
        chance.choice([None, None, 0, 1, 3, 8, 30]),
        chance.choice([None, None, None, 0, 1, 2, 5]),
        chance.choice([0.0, 0.0, 0.1, 1 / 3, 7.0]),
        chance.choice([1, 2, 5, 20]),
    )
    held = {lane: chance.randrange(5) for lane in LANES if chance.random() < 0.4}
    served = {lane: NOW_S - chance.choice([0, 1e-6, 0.4, 1 / 3, 5, 20]) for lane in LANES if chance.random() < 0.6}
    return QueueState(limits, held, served, NOW_S + chance.choice([-1e9, -3, 0, 0.1, 0.2, 1 / 3, 1.0, 20.0]))


def some_candidates(chance: random.Random) -> list[Candidate]:
    """Things with different numbers, many of which wait since the same time."""
    lanes, priorities = chance.sample(LANES, chance.randrange(1, 6)), chance.choice([[0], [0, 0, 5], [-2, -1, 0, 7]])
    numbers = chance.sample(range(10_000), chance.choice([0, 1, 5, 40]))
    at_s = [-inf, NOW_S - 10, NOW_S - 0.5, NOW_S - 1 / 3, NOW_S]
    return [Candidate(number, chance.choice(lanes), chance.choice(priorities), chance.choice(at_s), chance.random() < 0.5) for number in numbers]
