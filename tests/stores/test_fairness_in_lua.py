"""The fairness rule in Lua chooses what the one in Python chooses, for seeded random queues on a real Valkey."""

import random
from collections.abc import Iterator

import msgspec
import pytest
from redis import Redis

from perdure.stores.fairness import choose_candidates, next_lane_turn, next_start_at, rate_used_until, starts_allowed
from perdure.stores.redis import FAIRNESS
from tests.stores.fairness_cases import NOW_S, some_candidates, some_state
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
