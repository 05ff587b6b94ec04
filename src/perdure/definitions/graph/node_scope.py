"""The scope of a node: the names that its expressions may read, and the results of steps by their ids."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from perdure.core import error_codes, values
from perdure.core.errors import ErrorInfo, TooLarge
from perdure.core.limits import VALUE_BYTES_MAX
from perdure.core.operations import Failure
from perdure.core.values import ENCODED_NONE
from perdure.definitions.expr import json_schema

_array_encoder = msgspec.msgpack.Encoder()


class _Parts(msgspec.Struct, rename={"data": "@data", "meta": "@meta"}):
    """A `kind.Result`, encoded."""

    data: msgspec.Raw
    meta: dict[str, Any]


_parts_decoder = msgspec.msgpack.Decoder(_Parts)
_PARTS_BEGIN = msgspec.msgpack.encode({"@data": None, "@meta": None})[:7]
"""The first bytes of its encoding: a mapping of two entries, whose first key is ``@data``."""


NO_META: Mapping[str, Any] = {}


class Output:
    """The result of a step: encoded as in the log, and decoded once, when it is first read. `stored` is the time of recording, by the execution's clock."""

    __slots__ = ("_raw", "_value", "kind", "meta", "port", "stored")

    def __init__(self, raw: bytes = ENCODED_NONE, port: str = "success", kind: str = "", meta: Mapping[str, Any] = NO_META) -> None:
        self._raw: bytes | list[Output] = raw
        self._value: Any = None
        self.port, self.kind, self.meta = port, kind, meta
        self.stored = 0

    @classmethod
    def of(cls, value: Any, what: str) -> "Output":
        """Encodes a value as a result.

        Raises:
            Unencodable, TooLarge: it can't be encoded.
        """
        return cls(values.encode(value, what))

    @classmethod
    def many(cls, parts: list["Output"]) -> "Output":
        """The results of all items, in their order."""
        output = cls()
        output._raw = parts
        return output

    def parted(self) -> "Output":
        """Separates the result of a kind into its data and its metadata, if it has any."""
        if isinstance(self._raw, list) or not self._raw.startswith(_PARTS_BEGIN):
            return self
        try:
            parts = _parts_decoder.decode(self._raw)
        except msgspec.ValidationError:  # data that only begins like a result with metadata
            return self
        return Output(bytes(parts.data), self.port, self.kind, parts.meta)

    @property
    def raw(self) -> bytes:
        """The encoded result."""
        if isinstance(self._raw, list):
            self._raw = _array_encoder.encode([msgspec.Raw(part.raw) for part in self._raw])
        return self._raw

    @property
    def size_bytes(self) -> int:
        """The size of the encoded result."""
        return sum(part.size_bytes for part in self._raw) if isinstance(self._raw, list) else len(self._raw)

    @property
    def value(self) -> Any:
        """The result as plain data. It is shared and must not be changed."""
        if self._value is None and self._raw is not ENCODED_NONE:
            self._value = [part.value for part in self._raw] if isinstance(self._raw, list) else values.decode(self._raw, Any, "the result of a step")
        return self._value

    @property
    def envelope(self) -> dict[str, Any]:
        """The result with its metadata."""
        return {"type": self.kind, "data": self.value, "meta": self.meta, "port": self.port}


def combined_values(outputs: Mapping[str, Output], what: str) -> dict[str, Any]:
    """The results of several steps as one mapping.

    Raises:
        TooLarge: they take more than one value may.
    """
    size_bytes = sum(output.size_bytes for output in outputs.values())
    if size_bytes > VALUE_BYTES_MAX:
        raise TooLarge(what, size_bytes, VALUE_BYTES_MAX)
    return {id: output.value for id, output in outputs.items()}


class NodeOutcome(NamedTuple):
    """The port and the result with which a node, or one item or iteration of it, has settled."""

    port: str
    output: Output


def combined_outcome(port: str, outputs: Mapping[str, Output], what: str, made: Callable[[dict[str, Any]], Any] = dict) -> NodeOutcome | Failure:
    """Returns the outcome of a node with several results, combined by `made`; a failure if they are larger than one value may be."""
    try:
        return NodeOutcome(port, Output.of(made(combined_values(outputs, what)), what))
    except TooLarge as error:
        return Failure("fatal", 1, ErrorInfo(error_codes.TOO_LARGE, str(error)))


class ExpressionRoots(Protocol):
    """The names that are the same everywhere in an execution."""

    def root(self, name: str) -> Any:
        """The value of a root. KeyError, if there is none of this name."""
        ...

    def is_out(self, id: str) -> bool:
        """Whether a step without a result can't have one any more."""
        ...

    def name_of(self, id: str) -> str:
        """Returns the display name of a step; empty if it has none."""
        ...


class Iteration:
    """The present iteration of a cycle or `repeat`: when it began, and the steps that it does not reach, whose results are from earlier iterations."""

    __slots__ = ("passed_by", "since")

    def __init__(self) -> None:
        self.since = 0
        self.passed_by: set[str] = set()

    def pass_by(self, ids: Iterable[str]) -> None:
        """Makes steps read as null until they have run again."""
        self.passed_by.update(ids)


class NodeScope:
    """The names that can be read at one place: those given here, those of the surrounding scope, and the roots. It is a scope of `perdure.definitions.expr`.

    `outputs` are the results of steps by id; an item of an `each` has its own, in front of those around it. `turn` is the innermost iteration around the
    place, in which steps that it has passed by are null. The steps of an item do not belong to it.
    """

    __slots__ = ("_around", "_given", "_world", "outputs", "turn")

    def __init__(
        self, world: ExpressionRoots, around: "NodeScope | None" = None, given: Mapping[str, Any] | None = None, outputs: dict[str, Output] | None = None
    ) -> None:
        self._world, self._around, self._given = world, around, given
        self.outputs: dict[str, Output] = outputs if outputs is not None else {} if around is None else around.outputs
        self.turn: Iteration | None = None if around is None or outputs is not None else around.turn

    def inside(self, given: Mapping[str, Any], *, apart: bool = False, turn: Iteration | None = None) -> "NodeScope":
        """Returns the scope inside of this one with these names; with `apart`, results stay in it; `turn` is its iteration."""
        inside = NodeScope(self._world, self, given, {} if apart else None)
        inside.turn = inside.turn if turn is None else turn
        return inside

    def keep(self, id: str, output: Output) -> None:
        """Keeps the result of a step, and marks the step as reached in the iterations around it."""
        self.outputs[id] = output
        names: NodeScope | None = self
        while names is not None:
            if names.turn is not None:
                names.turn.passed_by.discard(id)
            names = names._around

    def has(self, name: str) -> bool:
        """Whether a name was given here."""
        return self._given is not None and name in self._given

    def root(self, name: str) -> Any:
        """The value of a root, or of a name that was given here."""
        names: NodeScope | None = self
        while names is not None:
            if names._given is not None and name in names._given:
                return names._given[name]
            names = names._around
        return self._world.root(name)

    def output(self, id: str) -> Output | None:
        """Returns the result of a step as it can be read here; None if the step will not have one.

        Raises:
            KeyError: it has none yet.
        """
        names: NodeScope | None = self
        while names is not None:
            if names.turn is not None and id in names.turn.passed_by:
                return None
            around = names._around
            if (around is None or around.outputs is not names.outputs) and (found := names.outputs.get(id)) is not None:
                return found
            names = around
        if self._world.is_out(id):
            return None
        raise KeyError(id)

    def seen(self) -> dict[str, Output]:
        """Returns the results of all steps that can be read here, by id; those of the innermost scope come last."""
        found: dict[str, Output] = {} if self._around is None else self._around.seen()
        if self._around is None or self._around.outputs is not self.outputs:
            found = {**found, **self.outputs}
        passed_by = () if self.turn is None else self.turn.passed_by
        return {id: output for id, output in found.items() if id not in passed_by}

    def step(self, id: str) -> Any:
        """Returns the data of a step, None if it was skipped."""
        found = self.output(id)
        return None if found is None else found.value

    def envelope(self, id: str) -> Any:
        """Returns the result of a step with its metadata."""
        found, name = self.output(id), self._world.name_of(id)
        envelope = (Output(port="skipped") if found is None else found).envelope
        return {**envelope, "name": name} if name else envelope


def schema_problem(shape: Any, value: Any) -> str:
    """Returns why a value does not fit a JSON Schema; empty if it does."""
    return "; ".join(json_schema.schema_problems(shape, value)[:3])


def full_schema(form: Any) -> dict[str, Any] | None:
    """Returns the JSON Schema of a form or an answer, which may be written as its properties alone; None if any value is allowed."""
    return json_schema.full_schema(form) if isinstance(form, dict) and form else None
