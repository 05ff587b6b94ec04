"""Answers: the shape that an agent's last answer has, and whether one has it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.core import values
from perdure.core.errors import BadExpression, Undecodable
from perdure.expr import schema as schemas
from perdure.programs.graph.names import shape as whole
from perdure.steps.agents.task import Task
from perdure.steps.agents.tools import objects
from perdure.steps.models.messages import Answer


class Shape(msgspec.Struct, frozen=True):
    """The schema of an answer, and the closed list of which it names next steps."""

    schema: dict[str, Any] | None = None
    choose: tuple[str, ...] = ()
    may_choose_none: bool = False


class Wrong(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong with an answer. `is_unauthorized`: it names a next step that is not in the list. `is_final`: telling the model is of no use."""

    why: str
    is_unauthorized: bool = False
    is_final: bool = False


def shape(task: Task, own: Mapping[str, Any] | None) -> Shape:
    """The shape of the answer to a task, of an agent that has a schema of its `own`, or none."""
    given = task.schema if task.schema is not None else own
    schema = whole(dict(given or {}))
    if not task.choose:
        return Shape(schema)
    named = {"type": "array", "items": {"enum": list(task.choose)}, "description": "where to go on"}
    properties = {"next": named if task.may_choose_none else {**named, "minItems": 1}, "reasoning": {"type": "string", "description": "why"}}
    base = objects(schema or {})
    required = ["next", *(name for name in base.get("required", ()) if name != "next")]
    merged = {**base, "properties": {**base.get("properties", {}), **properties}, "required": required}
    return Shape(merged, task.choose, task.may_choose_none)


def wrong(answer: Answer, shape: Shape, kind: Any = Any) -> Wrong | None:
    """What is wrong with an answer that asks for no tools, which is to become a value of a type; None, if nothing is."""
    if answer.finish == "filter":
        return Wrong("the provider withheld the answer", is_final=True)
    if answer.finish == "length":
        return Wrong("the answer was cut off, as it was longer than max_tokens; answer more briefly")
    if shape.schema is None:
        return None if answer.text or answer.data is not None else Wrong("the answer is empty")
    data = data_of(answer)
    if data is None:
        return Wrong("the answer is not the data that was asked for; answer with JSON that fits the schema, and nothing else")
    if shape.choose and isinstance(data, dict):
        chosen = data.get("next")
        named = [chosen] if isinstance(chosen, str) else chosen if isinstance(chosen, list) else []
        for one in named:
            if one not in shape.choose:
                return Wrong(f"tried to go on to {str(one)[:60]!r}, which is unauthorized; allowed are {', '.join(shape.choose)}", is_unauthorized=True)
    try:
        problems = schemas.problems(shape.schema, data)
        if not problems:
            _ = values.decode(values.encode(data, "the answer"), kind, "the answer")
    except BadExpression as error:
        return Wrong(str(error), is_final=True)
    except Undecodable as error:
        problems = [error.why]
    return Wrong(f"the answer does not fit: {'; '.join(problems[:5])}") if problems else None


def data_of(answer: Answer) -> Any:
    """The data of an answer; that of a provider that knows no schemas stands in its text."""
    if answer.data is not None:
        return answer.data
    text = answer.text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def output_of(answer: Answer, shape: Shape) -> Any:
    """What an answer in which nothing is wrong comes to: its text, or its data if there is a schema."""
    if shape.schema is None:
        return answer.text if answer.data is None else answer.data
    return data_of(answer)
