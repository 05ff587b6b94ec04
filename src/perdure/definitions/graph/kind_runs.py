"""Runs of kinds: a node whose work is done by a `Kind` becomes calls of the kind's step.

If the kind or the verb declares `repairs_answers`, an answer that does not fit the `schema` of the config is sent back in a further call, as often as the
config's `repairs` allows. The result of any node may be transformed before others read it: by source text, which a kind performs, or by a template that
sees it as ``@self``.

A node that uses a composite counts that use once. The execution that counts (see `perdure.code.builtin_workflows`) is started, unless it exists, in the
commit that opens the node's call; the use is a message in the commit that holds the call's result. So a use is counted if and only if its result is
recorded, and a replay counts nothing.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from perdure.code.builtin_workflows import DESCRIPTION, USED_SIGNAL
from perdure.code.declarations import Step
from perdure.core import error_codes, values
from perdure.core.attributes import checked_attributes
from perdure.core.errors import ErrorInfo, ProgrammingError
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import COMPOSITE_WORKFLOW, CallOperation, Failure, KeepOperation, Operation, SendOperation, SpawnOperation
from perdure.core.paths import Key, Path
from perdure.core.values import Blob
from perdure.definitions.expr.secret_marks import mark_pointers
from perdure.definitions.format.model import SOURCE_FIELDS, transform_source, verbs_by_name
from perdure.definitions.format.shapes import FieldsShape
from perdure.definitions.graph import ir
from perdure.definitions.graph import step_kind as kinds
from perdure.definitions.graph.graph_run import GraphRun, VerbRun
from perdure.definitions.graph.node_scope import NodeOutcome, Output, full_schema, schema_problem
from perdure.definitions.graph.operation_log import FAILED, NodeFailure
from perdure.definitions.graph.step_kind import CompositeUse, Kind
from perdure.definitions.graph.tool_calls import call_with_end_options, encode_call_arguments, step_with_retry

REPAIRS_DEFAULT = 1
"""The default number of times that an answer that does not fit is sent back."""

UNFIT_ANSWER_NOTE = ("answer", 0)
"""The place, beside the node, of the note that no answer fitted."""


class KindTemplates(NamedTuple):
    """The inputs of a node of a kind, as templates.

    With `own_expressions`, the config holds expressions of the kind itself and none of the format. With `repairs_answers`, answers that do not fit are sent
    back although the kind does not declare it: the verb does, whatever performs it.
    """

    config: Any
    input: Any
    env: Any
    own_expressions: bool = False
    repairs_answers: bool = False


class KindArguments(NamedTuple):
    """The evaluated inputs of a node of a kind, and the JSON pointers of secrets in them."""

    values: dict[str, Any]
    secrets: tuple[str, ...] = ()

    def with_config(self, **more: Any) -> "KindArguments":
        """The same arguments with more fields in the config."""
        return self._replace(values={**self.values, "config": {**self.values["config"], **more}})


def run_node_kind(run: GraphRun, verb_run: VerbRun) -> None:
    """Performs a node by the kind that is named like its verb; the node fails if this engine does not have that kind."""
    node, verb = verb_run.node, verbs_by_name()[verb_run.node.kind]
    kind = run.workflow.kinds.get(node.kind)
    if kind is None:
        verb_run.then(unknown_kind_error(run, verb_run, node.kind))
        return
    config = node.config
    if verb.repairs_answers and not isinstance(config, Mapping) and isinstance(verb.shape, FieldsShape):
        config = {verb.shape.sugar: config}
    KindRun(run, verb_run, kind, KindTemplates(config, node.input, node.env, verb.own_expressions, verb.repairs_answers)).begin()


class KindRun:
    """The run of one node by a kind. `answers` are the results so far; all but the last did not fit the schema."""

    def __init__(self, run: GraphRun, verb_run: VerbRun, kind: Kind, templates: KindTemplates) -> None:
        self.run, self.verb_run, self.kind, self.templates = run, verb_run, kind, templates
        self.repairs_answers = kind.repairs_answers or templates.repairs_answers
        config = templates.config if self.repairs_answers and isinstance(templates.config, Mapping) else {}
        self.shape = full_schema(config.get("schema"))
        self.repairs = int(config.get("repairs", REPAIRS_DEFAULT))
        self.step = kind_step(run, verb_run.node, kind)
        self.arguments: KindArguments | None = None
        self.use: CompositeUse | None = None
        self.answers: list[Output] = []

    def begin(self) -> None:
        """Makes the next call: the first, or one that says what is wrong with the answers so far."""
        path = self._path(len(self.answers))
        op = self.run.log.attempted(path, lambda: kind_call(self.verb_run, self.kind, self.step, self._call_arguments()))
        if isinstance(op, Failure):
            self.verb_run.then(op)
            return
        if self.shape is not None and self.arguments is None and isinstance(op, CallOperation) and not isinstance(op.args, Blob):
            _, named = values.decode(op.args, tuple[list[Any], dict[str, Any]], "the arguments of a step", path)
            self.arguments = KindArguments(named, op.secrets)
        counted = begin_use_count(self.run, self.verb_run, self.use) if not self.answers else ""
        self.run.log.wait(path, lambda settlement: self._settle(settlement, counted), self.step)

    def _path(self, number: int) -> Path:
        return (*self.verb_run.path, ("repair", number)) if number else self.verb_run.path

    def _call_arguments(self) -> KindArguments:
        """Returns the arguments of the next call: those of the first, with the requested repairs."""
        if self.arguments is None:  # after a restart too, if the first call's arguments are in a blob that this process has not loaded
            self.arguments = self._evaluated()
        if not self.answers:
            return self.arguments
        return self.arguments.with_config(repair=[{"answer": _answer_text(answer), "wrong": self._problem(answer)} for answer in self.answers])

    def _evaluated(self) -> KindArguments:
        written = kinds.written_config(self.kind, self.templates.config)
        if self.repairs_answers and isinstance(written, Mapping):
            written = {name: value for name, value in written.items() if name not in ("schema", "repairs")}
        found = evaluate_kind_arguments(self.run, self.verb_run, self.kind.name, self.templates._replace(config=written))
        declared = self.verb_run.node.idempotent
        if self.kind.is_told_idempotence and declared is not None and isinstance(found.values["config"], Mapping):
            found = found.with_config(idempotent=declared)
        self.use = kinds.composite_use(self.kind, written, found.values["config"])
        return found if self.shape is None else found.with_config(schema=self.shape)

    def _settle(self, settlement: SettledOperation, counted: str) -> None:
        result = self.run.log.result(settlement)
        if isinstance(result, Failure):
            self.verb_run.then(result)
            return
        if counted:
            count_use(self.run, self.verb_run, counted)
        answer = result.output.parted()
        if self.repairs_answers:
            self.answers.append(answer)
            unfit = self._is_unfit()
            if isinstance(unfit, Failure):
                self.verb_run.then(unfit)
                return
            if unfit:
                self.begin()
                return
            answer.meta = _answers_meta(self.answers)
        self.verb_run.then(NodeOutcome(result.port, answer))

    def _is_unfit(self) -> bool | Failure:
        """Returns whether the last answer has to be repaired, or the failure of the node if no repair is left. On replay, as it was recorded."""
        log, again, place = self.run.log, self._path(len(self.answers)), (*self.verb_run.path, UNFIT_ANSWER_NOTE)
        if log.replaying:
            is_repaired = log.upcoming(again) is not None or log.upcoming((*again, FAILED)) is not None
            found = None if is_repaired else log.judged(place, lambda: None)
            return found if isinstance(found, Failure) else is_repaired
        answer, id = self.answers[-1], self.verb_run.node.id
        try:
            problem = self._problem(answer)
        except ProgrammingError as error:
            return log.fails(place, error)
        if problem and answer.meta.get("finish") == "filter":
            said = _answer_text(answer)[:500] or "no text"
            return log.fails(
                place, NodeFailure(ErrorInfo(error_codes.ANSWER_REFUSED, f"{id}: the model refused to answer, or its provider filtered the answer: {said}"))
            )
        if problem and len(self.answers) > self.repairs:
            times = "once" if self.repairs == 1 else f"{self.repairs:,} times"
            why = f"{id}: the model's answer does not fit its schema, and was requested again {times}: {problem}"
            return log.fails(place, NodeFailure(ErrorInfo(error_codes.BAD_ANSWER, why)))
        return bool(problem)

    def _problem(self, answer: Output) -> str:
        """The problem of an answer; empty if it fits."""
        if self.shape is None:
            return ""
        problem = "it is not JSON" if "text" in answer.meta else schema_problem(self.shape, answer.value)
        return "it was cut off at the limit of tokens" if problem and answer.meta.get("finish") == "length" else problem


def _answer_text(answer: Output) -> str:
    """An answer as the model gave it."""
    text = answer.meta.get("text")
    return text if isinstance(text, str) else "" if answer.value is None else msgspec.json.encode(answer.value).decode()


def _answers_meta(answers: list[Output]) -> dict[str, Any]:
    """The metadata of the last answer; after repairs, with the usage of all answers together."""
    last = dict(answers[-1].meta)
    if len(answers) == 1:
        return last
    return {**last, "usage": summed_usage([answer.meta.get("usage") or {} for answer in answers]), "repairs": len(answers) - 1}


def summed_usage(usages: list[dict[str, Any]]) -> dict[str, Any]:
    """Adds up the usage of several requests. A number that one of them lacks is None."""
    names = dict.fromkeys(name for usage in usages for name in usage)
    return {name: None if any(usage.get(name) is None for usage in usages) else sum(usage[name] for usage in usages) for name in names}


def begin_use_count(run: GraphRun, verb_run: VerbRun, count: CompositeUse | None) -> str:
    """Starts the execution that counts the uses, unless it exists. Returns its name; empty if nothing is counted. On replay, as it was recorded."""
    path = (*verb_run.path, ("composite", 0))
    if run.log.replaying:
        remembered = run.log.upcoming(path)
        return "" if remembered is None else _composite_name(run.log.ask(path, remembered))
    return "" if count is None else _composite_name(run.log.ask(path, _first_use_operation(count, verb_run)))


def _first_use_operation(count: CompositeUse, verb_run: VerbRun) -> Operation:
    if count.input is None:
        return KeepOperation(label=count.name)
    raw = values.encode(((count.input,), {}), "the composite of", verb_run.path)
    return SpawnOperation(COMPOSITE_WORKFLOW, count.name, 1, raw, awaited=False, on_cancel="detach", attributes=checked_attributes({DESCRIPTION: count.about}))


def _composite_name(op: Operation) -> str:
    match op:
        case SpawnOperation(id=name) | KeepOperation(label=name):
            return name
    return ""


def count_use(run: GraphRun, verb_run: VerbRun, name: str) -> None:
    """Sends one use to the execution that counts them."""
    _ = run.log.ask((*verb_run.path, ("used", 0)), SendOperation(Key(run.execution.key.tenant, COMPOSITE_WORKFLOW, name), USED_SIGNAL.name))


def evaluate_kind_arguments(run: GraphRun, verb_run: VerbRun, kind: str, given: KindTemplates) -> KindArguments:
    """Evaluates the inputs of a node of a kind."""
    found = {"config": _kind_config(run, verb_run, kind, given), "input": _evaluated_or_none(run, verb_run, given.input)}
    if given.env is not None:
        found["env"] = _evaluated_or_none(run, verb_run, given.env)
    return KindArguments(found, tuple(mark_pointers(found)) if _reads_secrets(run, kind, given) else ())


def kind_call(verb_run: VerbRun, kind: Kind, step: Step[Any, Any, Any], given: KindArguments) -> CallOperation:
    """The call of a kind's step with these arguments."""
    node = verb_run.node
    again = kind.may_repeat(given.values["config"]) if node.idempotent is None else node.idempotent
    call = CallOperation(kind.name, encode_call_arguments(given.values, verb_run.path), step.queue, step.rule, step.timeout_s, again, secrets=given.secrets)
    return call_with_end_options(msgspec.structs.replace(call, grace_s=step.grace_s), node)


def kind_step(run: GraphRun, node: ir.GraphNode, kind: Kind) -> Step[Any, Any, Any]:
    """The step of a kind with the options of the node. Made once for each plan."""
    memory, key = run.plan.by_id[node.id].memory, f"kind {kind.name}"
    cached = memory.get(key)
    if isinstance(cached, tuple) and cached[0] is kind:
        step: Step[Any, Any, Any] = cached[1]
        return step
    step, rule = kind.step, node.retry or run.plan.ir.retry
    if rule is not None and step.retry.fatal:
        step = dataclasses.replace(step, retry=dataclasses.replace(step.retry, fatal=()))
    step = step_with_retry(step, node.retry, run.plan.ir.retry)
    if node.timeout_s is not None:
        step = dataclasses.replace(step, timeout=node.timeout_s)
    memory[key] = (kind, step)
    return step


def _reads_secrets(run: GraphRun, kind: str, given: KindTemplates) -> bool:
    """Whether the inputs read secrets; a source text reads none."""
    source = SOURCE_FIELDS.get(kind)
    config = given.config
    if source is not None:
        config = {name: value for name, value in config.items() if name != source} if isinstance(config, Mapping) else None
    return any(value is not None and run.reads_secrets(value) for value in (config, given.input, given.env))


def _kind_config(run: GraphRun, verb_run: VerbRun, kind: str, given: KindTemplates) -> Any:
    """The evaluated config; a source text in it stays as it is."""
    source, config = SOURCE_FIELDS.get(kind), given.config
    if source is None:
        return None if config is None else run.evaluated(config, verb_run.names, may_have_secrets=True, is_of_kind=given.own_expressions)
    if not isinstance(config, Mapping):
        return config
    return {**_evaluated_or_none(run, verb_run, {name: value for name, value in config.items() if name != source}), source: config.get(source)}


def _evaluated_or_none(run: GraphRun, verb_run: VerbRun, value: Any) -> Any:
    return None if value is None else run.evaluated(value, verb_run.names, may_have_secrets=True)


def with_transform(run: GraphRun, verb_run: VerbRun) -> VerbRun:
    """The same run of a verb, whose result is transformed before it is passed on."""
    return verb_run._replace(then=lambda how: _transform(run, verb_run, how))


def _transform(run: GraphRun, verb_run: VerbRun, how: NodeOutcome | Failure) -> None:
    if isinstance(how, Failure):
        verb_run.then(how)
        return
    done = how
    path = (*verb_run.path, ("transform", 0))
    source_of = transform_source(verb_run.node.transform)
    if source_of is None:
        _transform_by_template(run, verb_run, done, path)
        return
    kind, source = source_of
    found = run.workflow.kinds.get(kind)
    if found is None:
        verb_run.then(unknown_kind_error(run, verb_run._replace(path=path), kind))
        return
    step = found.step

    def made() -> CallOperation:
        args = encode_call_arguments({"config": source, "input": done.output.value}, path)
        return CallOperation(kind, args, step.queue, step.rule, step.timeout_s)

    def told(settlement: SettledOperation) -> None:
        result = run.log.result(settlement)
        if isinstance(result, NodeOutcome):
            result.output.meta = done.output.meta
            verb_run.then(NodeOutcome(done.port, result.output))
        else:
            verb_run.then(result)

    op = run.log.attempted(path, made)
    if isinstance(op, Failure):
        verb_run.then(op)
    else:
        run.log.wait(path, told, step)


def _transform_by_template(run: GraphRun, verb_run: VerbRun, done: NodeOutcome, path: Path) -> None:
    names = verb_run.names.inside({"self": done.output.value})
    kept = run.log.attempted(
        path, lambda: KeepOperation(values.encode(run.evaluated(verb_run.node.transform, names), "what is made of the result of", verb_run.path))
    )
    if isinstance(kept, KeepOperation):
        verb_run.then(NodeOutcome(done.port, Output(run.log.raw(kept.value), meta=done.output.meta)))
    elif isinstance(kept, Failure):
        verb_run.then(kept)


def unknown_kind_error(run: GraphRun, verb_run: VerbRun, kind: str) -> Failure:
    """The failure of a node whose kind this engine does not have."""

    def refuse() -> KeepOperation | None:
        raise run.failure(f"this engine has no kind {kind!r}; add the kind, and retry the execution", error_codes.UNKNOWN_KIND)

    error = run.log.judged((*verb_run.path, ("error", 0)), refuse)
    return error if isinstance(error, Failure) else Failure("fatal", 1, ErrorInfo(error_codes.UNKNOWN_KIND, kind))
