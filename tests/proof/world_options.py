"""What a simulated world is made of, and what befalls it; drawn from its seed."""

from random import Random
from typing import Literal

import msgspec
from msgspec.structs import replace

from perdure.testing.faults import NO_FAULTS, Faults
from tests.proof import program_nodes as n
from tests.proof.program_generator import generate
from tests.proof.program_nodes import Program
from tests.proof.program_variations import changed, queued, with_endings, with_losers

PAUSE_MAX_S = 5.0
"""How long an execution is paused at most: not so long that what is waited for with a timeout comes too late."""

Kind = Literal["memory", "sqlite", "postgres"]
"""What the store of a world is kept in."""


class Options(msgspec.Struct, frozen=True):
    """What a world is made of, and what befalls it until `kills_max` engines were killed or `trouble_s` have passed.

    Every so many seconds, on average: an engine is killed, one is stopped, an epoch is raised, a late answer comes, an execution is
    paused for a moment, one is evicted. In a blackout all engines are killed, and none is started for `blackout_s`. Logs are compacted from
    `compact_from` dead events on. Programs are hastened, unless they are to be run `as_written`. Only a store in memory has several
    `reaches`. At each of `deploys_at_s` newer code begins to come to one process after the other, `rollout_s` apart at most; `pinned`, it is a
    newer version of the programs. What waits in queues is done by `workers`; in those without limits, by the first engine too if `an_engine_serves`.
    A reader may follow the change feed (`follows_feed`), of a store with one reach.
    If trouble is over `at_once`, who has died or stands still is known to be dead at that moment, and is begun anew; nobody need wait for leases or look.
    """

    engines: int = 2
    store: Kind = "memory"
    reaches: int = 1
    always_suspend: bool = False
    faults: Faults = NO_FAULTS
    kills_max: int = 0
    trouble_s: float = 300.0
    kill_every_s: float = 0.0
    stop_every_s: float = 0.0
    blackouts_at_s: tuple[float, ...] = ()
    blackout_s: float = 30.0
    down_max_s: float = 2.0
    epoch_every_s: float = 0.0
    stray_every_s: float = 0.0
    pause_every_s: float = 0.0
    evict_every_s: float = 0.0
    cancel_after_s: float | None = None
    compact_from: int = 4
    as_written: bool = False
    deploys_at_s: tuple[float, ...] = ()
    rollout_s: float = 5.0
    pinned: bool = False
    lines: tuple[n.Line, ...] = ()
    workers: int = 0
    an_engine_serves: bool = False
    at_once: bool = False
    follows_feed: bool = False
    lease_s: float = 5.0
    poll_s: float = 1.0
    pause_max_s: float = PAUSE_MAX_S

    @property
    def troubled(self) -> bool:
        """Whether anything bad happens at all."""
        often = (self.kill_every_s, self.stop_every_s, self.epoch_every_s, self.stray_every_s, self.pause_every_s, self.evict_every_s)
        return self.faults != NO_FAULTS or any(often) or bool(self.blackouts_at_s) or self.cancel_after_s is not None


def drawn(seed: int, *, faults: bool = True, always_suspend: bool = False, store: Kind = "memory") -> tuple[list[Program], Options]:
    """The programs and the world that a seed stands for. What is drawn later changes nothing of what was drawn before."""
    programs, options = _drawn(seed, faults, always_suspend, store)
    programs, options = _with_deploys(Random(f"{seed}: deploys"), programs, options)
    programs, options = _with_queues(Random(f"{seed}: queues"), programs, options)
    rng = Random(f"{seed}: losers")
    programs = [with_losers(program, rng) for program in programs] if rng.random() < 0.4 else programs
    follows_feed = options.reaches == 1 and Random(f"{seed}: follows feed").random() < 0.3
    options = replace(options, poll_s=Random(f"{seed}: poll").choice((1.0, 5.0, 5.0)), follows_feed=follows_feed)
    return _with_endings(Random(f"{seed}: endings"), programs, options, faults)


def _with_deploys(rng: Random, programs: list[Program], options: Options) -> tuple[list[Program], Options]:
    if rng.random() >= 0.4:
        return programs, options
    deploys_at_s = tuple(sorted(rng.choice((2.0, 8.0, 30.0)) * rng.random() for _ in range(rng.randint(1, 3))))
    rollout_s, pinned = rng.choice((2.0, 10.0, 40.0)), rng.random() < 0.3
    return [changed(program, rng) for program in programs], replace(options, deploys_at_s=deploys_at_s, rollout_s=rollout_s, pinned=pinned)


def _with_endings(rng: Random, programs: list[Program], options: Options, faults: bool) -> tuple[list[Program], Options]:
    if rng.random() >= 0.4:
        return programs, options
    programs = [with_endings(program, rng, [line.name for line in options.lines]) for program in programs]
    return programs, replace(options, cancel_after_s=rng.uniform(0.0, 10.0)) if faults and rng.random() < 0.3 else options


def _with_queues(rng: Random, programs: list[Program], options: Options) -> tuple[list[Program], Options]:
    if rng.random() >= 0.4:
        return programs, options
    lines = [_line(rng, name) for name in ("narrow", "wide")[: rng.randint(1, 2)]]
    workers, an_engine_serves = rng.randint(1, 3), rng.random() < 0.5
    return [queued(program, rng, lines) for program in programs], replace(options, lines=tuple(lines), workers=workers, an_engine_serves=an_engine_serves)


def _line(rng: Random, name: str) -> n.Line:
    concurrency, per_key = rng.choice((None, 1, 1, 2)), rng.choice((None, None, 1))
    return n.Line(name, concurrency, per_key, rng.choice((None, None, None, 0.5)), rng.randint(1, 2))


def _drawn(seed: int, faults: bool, always_suspend: bool, store: Kind) -> tuple[list[Program], Options]:
    rng = Random(f"{seed}: world")
    programs = [generate(rng, rng.choice((3, 6, 10, 20))) for _ in range(rng.choice((1, 1, 2)))]
    engines, reaches = rng.choice((2, 2, 3)), rng.choice((1, 1, 3))
    calm = Options(engines=engines, store=store, reaches=reaches if store == "memory" else 1, always_suspend=always_suspend)
    if calm.reaches > 1:
        programs.append(_with_children(Random(f"{seed}: children")))
    if not faults:
        return programs, calm
    rate = rng.choice((0.0, 0.01, 0.05))
    kills = rng.choice((0.0, 0.02, 0.05, 0.15))

    def now_and_then(*every_s: float) -> float:
        return rng.choice((0.0, *every_s))

    return programs, replace(
        calm,
        faults=Faults(
            fail_before=rate,
            fail_after=rate,
            failing=frozenset(rng.choice(((), (), ("commit",), ("commit", "read", "blob"), ("claim",), ("renew",)))),
            delay=rng.choice((0.0, 0.1, 0.5)),
            resend=rng.choice((0.0, 0.1, 0.5)),
            lose_notification=rng.choice((0.0, 0.3)),
            kill_before=kills,
            kill_after=kills,
            freeze=rng.choice((0.0, 0.0, 0.01)),
            tear=rng.choice((0.0, 0.1, 0.5)),
        ),
        kills_max=rng.choice((10, 30, 60)),
        kill_every_s=now_and_then(0.3, 2.0, 10.0),
        stop_every_s=now_and_then(5.0, 30.0),
        blackouts_at_s=rng.choice(((), (), (), (rng.uniform(0.0, 30.0),))),
        epoch_every_s=now_and_then(0.0, 20.0),
        stray_every_s=now_and_then(0.5, 3.0),
        cancel_after_s=rng.choice((None, None, None, None, None, None, None, rng.uniform(0.0, 20.0))),
        pause_every_s=now_and_then(0.0, 0.7, 4.0),
        evict_every_s=now_and_then(0.0, 0.4, 3.0),
    )


def _with_children(rng: Random) -> Program:
    """A program some of whose messages may leave its reach: those to its children, and their answers."""
    while True:
        program = generate(rng, 10)
        if any(isinstance(node, n.Call) for node in n.walk(program.root)):
            return program
