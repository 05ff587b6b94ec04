"""A scenario: one capability, as workflows whose steps keep a ledger, with what is done to them, and what must have come of it all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure import Queue, Retry, Step, Workflow
from perdure.core.paths import Key

if TYPE_CHECKING:
    from tests.runtime.kill.scenario_run import ScenarioRun
    from tests.runtime.processes import History

PATIENT = Retry(max=4, wait=0.02, factor=1)
"""How the steps of scenarios are tried again."""


class Size(NamedTuple):
    """How many executions there are, and how often an engine is killed meanwhile."""

    executions: int
    kills: int


class Scenario(NamedTuple):
    """A capability under kill -9.

    `workflows` are those of a deploy; `steps` are done from `queues`. `drive` starts and does what people do, and returns once all that it waits for has
    come; `check` looks at what was done, and returns figures. An operator is what a process of its own does with a client: killed, it is begun again.
    `given` says of the key of a step whether somebody gave its result, so that it need not have been done.
    """

    workflows: Callable[[int], Sequence[Workflow[..., Any]]]
    drive: Callable[[ScenarioRun], None]
    check: Callable[[ScenarioRun, Mapping[Key, History]], str]
    short: Size
    long: Size
    steps: Sequence[Step[..., Any, Any]] = ()
    queues: Sequence[str] = ()
    declares: Sequence[Queue] = ()
    operators: Mapping[str, Callable[..., None]] = {}
    every_s: tuple[float, float] = (0.08, 0.25)
    engines: int = 2
    given: Callable[[str], bool] = lambda _: False
