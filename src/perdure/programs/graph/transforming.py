"""Transforms: what a step has come to, made over before anybody reads it: by source text in a sandbox, or as a template says that sees it as ``@self``."""

from typing import TYPE_CHECKING

from perdure.core import values
from perdure.core.errors import ErrorInfo
from perdure.core.ops import Call, Err, Keep
from perdure.core.paths import Path
from perdure.core.promise import Settlement
from perdure.programs.format.sources import sourced
from perdure.programs.graph import tools
from perdure.programs.graph.doing import Doing
from perdure.programs.graph.names import Done, Output

if TYPE_CHECKING:
    from perdure.programs.graph.instance import Instance


def transformed(run: "Instance", doing: Doing) -> Doing:
    """The same to do, whose result is made over before it is told."""
    return doing._replace(then=lambda how: _transform(run, doing, how))


def _transform(run: "Instance", doing: Doing, how: Done | Err) -> None:
    if isinstance(how, Err):
        doing.then(how)
        return
    done = how
    path = (*doing.path, ("transform", 0))
    source_of = sourced(doing.node.transform)
    if source_of is None:
        _fill(run, doing, done, path)
        return
    kind, source = source_of
    found = run.workflow.kinds.get(kind)
    if found is None:
        doing.then(refused(run, doing._replace(path=path), kind))
        return
    step = found.step

    def made() -> Call:
        args = tools.arguments({"config": source, "input": done.output.value}, path)
        return Call(kind, args, step.queue, step.rule, step.timeout_s)

    def told(settlement: Settlement) -> None:
        result = run.log.result(settlement)
        if isinstance(result, Done):
            result.output.meta = done.output.meta
            doing.then(Done(done.port, result.output))
        else:
            doing.then(result)

    op = run.log.attempted(path, made)
    if isinstance(op, Err):
        doing.then(op)
    else:
        run.log.wait(path, told, step)


def _fill(run: "Instance", doing: Doing, done: Done, path: Path) -> None:
    names = doing.names.inside({"self": done.output.value})
    kept = run.log.attempted(path, lambda: Keep(values.encode(run.evaluated(doing.node.transform, names), "what is made of the result of", doing.path)))
    if isinstance(kept, Keep):
        doing.then(Done(done.port, Output(run.log.raw(kept.value), meta=done.output.meta)))
    elif isinstance(kept, Err):
        doing.then(kept)


def refused(run: "Instance", doing: Doing, kind: str) -> Err:
    """The error that nothing here does what a kind of steps is for."""

    def refuse() -> Keep | None:
        raise run.failure(f"this engine has nothing that does {kind}; give it one, and retry the execution", "UnknownKind")

    error = run.log.judged((*doing.path, ("error", 0)), refuse)
    return error if isinstance(error, Err) else Err("fatal", 1, ErrorInfo("UnknownKind", kind))
