"""Transforms: what a step has come to, made over before anybody reads it: by source text in a sandbox, or as a template says that sees it as ``@self``."""

from typing import TYPE_CHECKING

from perdure.core import values
from perdure.core.errors import ErrorInfo
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation, Failure, KeepOperation
from perdure.core.paths import Path
from perdure.definitions.format.verb_shapes import transform_source
from perdure.definitions.graph import tools
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.node_scope import NodeOutcome, Output

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram


def with_transform(run: "GraphProgram", doing: VerbRun) -> VerbRun:
    """The same to do, whose result is made over before it is told."""
    return doing._replace(then=lambda how: _transform(run, doing, how))


def _transform(run: "GraphProgram", doing: VerbRun, how: NodeOutcome | Failure) -> None:
    if isinstance(how, Failure):
        doing.then(how)
        return
    done = how
    path = (*doing.path, ("transform", 0))
    source_of = transform_source(doing.node.transform)
    if source_of is None:
        _transform_by_template(run, doing, done, path)
        return
    kind, source = source_of
    found = run.workflow.kinds.get(kind)
    if found is None:
        doing.then(unknown_kind_error(run, doing._replace(path=path), kind))
        return
    step = found.step

    def made() -> CallOperation:
        args = tools.encode_call_arguments({"config": source, "input": done.output.value}, path)
        return CallOperation(kind, args, step.queue, step.rule, step.timeout_s)

    def told(settlement: SettledOperation) -> None:
        result = run.log.result(settlement)
        if isinstance(result, NodeOutcome):
            result.output.meta = done.output.meta
            doing.then(NodeOutcome(done.port, result.output))
        else:
            doing.then(result)

    op = run.log.attempted(path, made)
    if isinstance(op, Failure):
        doing.then(op)
    else:
        run.log.wait(path, told, step)


def _transform_by_template(run: "GraphProgram", doing: VerbRun, done: NodeOutcome, path: Path) -> None:
    names = doing.names.inside({"self": done.output.value})
    kept = run.log.attempted(
        path, lambda: KeepOperation(values.encode(run.evaluated(doing.node.transform, names), "what is made of the result of", doing.path))
    )
    if isinstance(kept, KeepOperation):
        doing.then(NodeOutcome(done.port, Output(run.log.raw(kept.value), meta=done.output.meta)))
    elif isinstance(kept, Failure):
        doing.then(kept)


def unknown_kind_error(run: "GraphProgram", doing: VerbRun, kind: str) -> Failure:
    """The error that nothing here does what a kind of steps is for."""

    def refuse() -> KeepOperation | None:
        raise run.failure(f"this engine has nothing that does {kind}; give it one, and retry the execution", "UnknownKind")

    error = run.log.judged((*doing.path, ("error", 0)), refuse)
    return error if isinstance(error, Failure) else Failure("fatal", 1, ErrorInfo("UnknownKind", kind))
