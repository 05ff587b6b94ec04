"""Asking a model: a call for each request. An answer that does not fit is told to the model in a further one, as often as the step allows."""

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.core import values
from perdure.core.errors import ErrorInfo, ProgrammingError
from perdure.core.operation_state import SettledOperation
from perdure.core.operations import CallOperation
from perdure.core.operations import Failure as Err
from perdure.core.paths import Path
from perdure.core.values import Blob
from perdure.definitions.graph import working
from perdure.definitions.graph.doing import VerbRun
from perdure.definitions.graph.node_scope import NodeOutcome, Output, full_schema, schema_problem
from perdure.definitions.graph.operation_log import FAILED, NodeFailure
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.graph.transforming import unknown_kind_error
from perdure.definitions.graph.working import KindArguments, KindTemplates

if TYPE_CHECKING:
    from perdure.definitions.graph.instance import GraphProgram

LLM_KIND = "llm"
REPAIRS_DEFAULT = 1
"""How often an answer that does not fit is asked for again, unless the step says otherwise."""

UNFIT_ANSWER_NOTE = ("answer", 0)
"""Where it is noted, beside the step, that no answer fitted."""


def llm(run: "GraphProgram", doing: VerbRun) -> None:
    """Ask, and settle with an answer that fits."""
    kind = run.workflow.kinds.get(LLM_KIND)
    if kind is None:
        doing.then(unknown_kind_error(run, doing, LLM_KIND))
    else:
        LlmRun(run, doing, kind).begin()


class LlmRun:
    """One step that asks a model. `answers` are those that have come, of which all but the last did not fit."""

    def __init__(self, run: "GraphProgram", doing: VerbRun, kind: Kind) -> None:
        self.run, self.doing, self.kind = run, doing, kind
        config = doing.node.config if isinstance(doing.node.config, dict) else {"prompt": doing.node.config}
        self.schema = config.get("schema")
        self.shape = full_schema(self.schema)
        self.repairs = int(config.get("repairs", REPAIRS_DEFAULT))
        self.given = KindTemplates({name: value for name, value in config.items() if name not in ("schema", "repairs")}, doing.node.input, doing.node.env)
        self.arguments: KindArguments | None = None
        self.answers: list[Output] = []

    def begin(self) -> None:
        """Send the next request: the first, or one that says what is wrong with the answers so far."""
        path, step = self._path(len(self.answers)), working.kind_step(self.run, self.doing.node, self.kind)
        op = self.run.log.attempted(path, lambda: working.kind_call(self.doing, self.kind, step, self._arguments()))
        if isinstance(op, Err):
            self.doing.then(op)
            return
        if self.arguments is None and isinstance(op, CallOperation) and not isinstance(op.args, Blob):
            given = values.decode(op.args, tuple[list[Any], dict[str, Any]], "what was asked", path)[1]
            self.arguments = KindArguments(given, op.secrets)
        self.run.log.wait(path, self._told, step)

    def _path(self, number: int) -> Path:
        return (*self.doing.path, ("repair", number)) if number else self.doing.path

    def _arguments(self) -> KindArguments:
        """What is asked: each time the same, as it was when it was first asked, and behind it what has come of it."""
        if self.arguments is None:  # also where what was first asked is kept beside the log, and this process has not asked it
            found = working.evaluate_kind_arguments(self.run, self.doing, self.kind.name, self.given)
            self.arguments = found if self.schema is None else _with_config(found, schema=self.shape)
        if not self.answers:
            return self.arguments
        return _with_config(self.arguments, repair=[{"answer": _answer_text(answer), "wrong": self._wrong(answer)} for answer in self.answers])

    def _told(self, settlement: SettledOperation) -> None:
        how = self.run.log.result(settlement)
        if isinstance(how, Err):
            self.doing.then(how)
            return
        self.answers.append(how.output.parted())
        wrong = self._judged()
        if isinstance(wrong, Err):
            self.doing.then(wrong)
        elif wrong:
            self.begin()
        else:
            answer = self.answers[-1]
            answer.meta = _answers_meta(self.answers)
            self.doing.then(NodeOutcome("success", answer))

    def _judged(self) -> bool | Err:
        """Whether the last answer is to be repaired, or why there is no use in that. On replay, what is remembered of it."""
        log, again, place = self.run.log, self._path(len(self.answers)), (*self.doing.path, UNFIT_ANSWER_NOTE)
        if log.replaying:
            is_repaired = log.upcoming(again) is not None or log.upcoming((*again, FAILED)) is not None
            found = None if is_repaired else log.judged(place, lambda: None)
            return found if isinstance(found, Err) else is_repaired
        answer = self.answers[-1]
        try:
            wrong = self._wrong(answer)
        except ProgrammingError as error:
            return log.fails(place, error)
        if wrong and answer.meta.get("finish") == "filter":
            why = f"{self.doing.node.id}: the model refused to answer, or its provider filtered the answer: {_answer_text(answer)[:500] or 'it says nothing'}"
            return log.fails(place, NodeFailure(ErrorInfo("Refused", why)))
        if wrong and len(self.answers) > self.repairs:
            times = "once" if self.repairs == 1 else f"{self.repairs:,} times"
            why = f"{self.doing.node.id}: the model's answer does not fit its schema, and was asked for again {times}: {wrong}"
            return log.fails(place, NodeFailure(ErrorInfo("BadAnswer", why)))
        return bool(wrong)

    def _wrong(self, answer: Output) -> str:
        """What is wrong with an answer; empty, if it fits."""
        if self.shape is None:
            return ""
        wrong = "it is no JSON" if "text" in answer.meta else schema_problem(self.shape, answer.value)
        return "it was cut off at the limit of tokens" if wrong and answer.meta.get("finish") == "length" else wrong


def _with_config(given: KindArguments, **more: Any) -> KindArguments:
    """The same, with more in the config."""
    return given._replace(values={**given.values, "config": {**given.values["config"], **more}})


def _answer_text(answer: Output) -> str:
    """An answer as the model gave it."""
    text = answer.meta.get("text")
    return text if isinstance(text, str) else "" if answer.value is None else msgspec.json.encode(answer.value).decode()


def _answers_meta(answers: list[Output]) -> dict[str, Any]:
    """What the last answer came by; with what all of them took, if it was not the first."""
    last = dict(answers[-1].meta)
    if len(answers) == 1:
        return last
    return {**last, "usage": summed_usage([answer.meta.get("usage") or {} for answer in answers]), "repairs": len(answers) - 1}


def summed_usage(usages: list[dict[str, Any]]) -> dict[str, Any]:
    """What several requests took together. What is not known of all of them is not known."""
    names = dict.fromkeys(name for usage in usages for name in usage)
    return {name: None if any(usage.get(name) is None for usage in usages) else sum(usage[name] for usage in usages) for name in names}
