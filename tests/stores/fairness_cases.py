"""Seeded random queues, by which the fairness rule in another language is compared with the one in Python."""

import random
from math import inf

from perdure.stores.fairness import Candidate, QueueState
from perdure.stores.protocol import QueueLimits

LANES = ["", "a", "b", "c\0", "日本"]
NOW_S = 1_000_000_000.0


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
