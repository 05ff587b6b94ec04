"""Roots: what every expression of an execution may read: its input, its variables, what it is, and the result before."""

from typing import TYPE_CHECKING, Any

from perdure.core import values
from perdure.core.ops import Err, Keep
from perdure.expr.marks import Mark, secret
from perdure.programs.graph.inputs import completed, wrong
from perdure.programs.graph.names import Names, Output

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance


class Secrets:
    """The secrets of an execution, by name: what stands for each is resolved where a call is made, and nowhere before."""

    def __getitem__(self, name: str) -> Mark:
        return secret(name)

    def get(self, name: str, _: Any = None) -> Mark:
        """What stands for a secret."""
        return self[name]


class Roots:
    """The roots of one execution. `outputs` are the results of the steps that stand in no `each`."""

    def __init__(self, run: "Instance", raw: bytes) -> None:
        self.run = run
        self.outputs: dict[str, Output] = {}
        self.last: Output | None = None
        self.loop: dict[str, Any] | None = None
        positional, named = values.decode(raw, tuple[list[Any], dict[str, Any]], "the input")
        given = {**(positional[0] if positional and isinstance(positional[0], dict) else {}), **named}
        self.input: dict[str, Any] = completed(run.plan.ir, given)
        self.variables: dict[str, Any] = {}

    def check(self) -> Keep | None:
        """Hold the input against what the definition takes."""
        for why in wrong(self.run.plan.ir, self.input):
            raise self.run.failure(why, "BadInput")
        return None

    def vary(self) -> Err | None:
        """Have the variables be what they are at the beginning: as they stand in the definition, or what their references come to, which is noted."""
        run, given = self.run, self.run.plan.ir.variables
        if not isinstance(given, dict):
            return None
        template, names = run.template(given), Names(self)
        if template.constant:
            self.variables = template.evaluate(names)
            return None
        kept = run.log.judged((("vars", 0),), lambda: Keep(values.encode(run.evaluated(given, names), "the variables"), label="vars"))
        if isinstance(kept, Keep):
            self.variables = values.decode(run.log.raw(kept.value), dict[str, Any], "the variables")
        return kept if isinstance(kept, Err) else None

    def root(self, name: str) -> Any:
        """The value of a root. KeyError, if there is none of this name."""
        match name:
            case "input":
                return self.input
            case "vars":
                return self.variables
            case "secrets":
                return Secrets()
            case "execution":
                return self._execution()
            case "last":
                return None if self.last is None else self.last.value
            case "lastOutput":
                return None if self.last is None else self.last.envelope
            case "loop" if self.loop is not None:
                return self.loop
            case "trigger":
                return {}
            case "steps":
                return {id: {"output": output.envelope} for id, output in self.outputs.items()}
        raise KeyError(name)

    def name_of(self, id: str) -> str:
        """What a step is called for people; empty, if nobody says."""
        place = self.run.plan.by_id.get(id)
        return "" if place is None else place.node.name

    def is_out(self, id: str) -> bool:
        """Whether a step without a result is not going to have one any more: it was passed by, or the block in which it stands is over without it."""
        plan, walk = self.run.plan, self.run.walk
        place = plan.by_id.get(id)
        if place is None:
            return False
        if plan.ir.order != "ports" or not walk.open:
            return True  # what is read stands before what reads it, and was passed by if there is nothing of it
        while True:
            if any((arrivals := frame.arrivals.get(place.number)) is not None and arrivals.is_dead for frame in walk.frames()):
                return True
            region = plan.regions[place.node.region]
            if region.kind == "body" and plan.places[region.head].node.id in self.outputs:
                return True
            if region.head < 0 or plan.places[region.head] is place:
                return False
            place = plan.places[region.head]

    def _execution(self) -> dict[str, Any]:
        execution = self.run.execution
        started = execution.started
        return {
            "id": execution.key.id,
            "execution_id": execution.key.id,
            "workflow": execution.key.workflow,
            "tenant": execution.key.tenant,
            "depth": execution.depth,
            "started_at_s": None if started is None else started.at_s,
            "now_s": execution.now_s,
        }
