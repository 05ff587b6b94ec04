"""Templates: plain values that contain references, compiled once and evaluated against a scope.

A text that is one reference (``"@fetch.items"``, ``"@{fetch.items}"``) becomes the referenced value, of any type; inside other text, ``@{...}`` inserts it.
``@@`` is a literal @, and so is an @ inside text that no brace follows. Lists and mappings are evaluated recursively, keys are left alone. By `Expressions`, a
value may also be ``{expr: "a.count + 1"}``, which becomes the result of the CEL (text that begins with an @ is no CEL, so ``{expr: "@vars.text"}`` is a
mapping), or text with ``{{``, see `braces`, in which an @ is an @. A secret never occurs here: a mark takes its place, see `secret_marks`.

References share their values until the result is encoded, so ``{x: ["@a", "@a"]}`` in a chain of 30 steps is a billion values from one kilobyte of text. The
result is therefore measured before anything encodes it, and measuring stops at the bounds on values and bytes, which keep an evaluation below 0.1 s.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal

import msgspec

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.core.limits import VALUE_BYTES_MAX
from perdure.definitions.expr import braces as language
from perdure.definitions.expr import cel, secret_marks
from perdure.definitions.expr.plain_values import DEPTH_MAX, MissingPolicy, MissingValueError, RootUnavailableError, shortened, text_of_value
from perdure.definitions.expr.references import (
    TEXT_CHARACTERS_MAX,
    ExpressionRead,
    ExpressionScope,
    Reference,
    parse_reference,
    reference_getter,
    scan_reference,
)
from perdure.definitions.expr.secret_marks import escape_pointer_key

EXPANDED_VALUES_MAX = 500_000
"""The most values, nested ones included, in the result of a template with several references."""

EXPANSION_HINT = "refer to less of it, or pass on the value of one step as a whole"


class TextExpansion:
    """The amount of text that one evaluation has built so far."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = 0

    def text(self, characters: int, where: str) -> None:
        """Counts text that is being built.

        Raises:
            ExpressionFailed: together with what was built before, it is too much.
        """
        self._bytes += characters
        if self._bytes > VALUE_BYTES_MAX:
            raise ExpressionFailed(where, f"the text becomes longer than {VALUE_BYTES_MAX:,} characters", "pass the value itself, or refer to less of it")


def check_expansion(value: Any) -> Any:
    """Measures a value and returns it; a shared value counts as often as it occurs.

    Raises:
        ExpressionFailed: it has too many values, or too many bytes.
    """
    left_values, left_bytes, waiting = EXPANDED_VALUES_MAX, VALUE_BYTES_MAX, [value]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind is str:
            left_bytes -= len(one)
        elif kind is list:
            left_values -= len(one)
            _refuse_expansion(left_values, left_bytes)
            waiting.extend(one)
        elif isinstance(one, dict):
            left_values -= len(one)
            _refuse_expansion(left_values, left_bytes)
            left_bytes -= sum(map(len, one))
            waiting.extend(one.values())
        else:
            left_bytes -= 1
    _refuse_expansion(left_values, left_bytes)
    return value


def _refuse_expansion(left_values: int, left_bytes: int) -> None:
    if left_values < 0:
        raise ExpressionFailed("", f"its references expand to more than {EXPANDED_VALUES_MAX:,} values", EXPANSION_HINT)
    if left_bytes < 0:
        raise ExpressionFailed("", f"its references expand to more than {VALUE_BYTES_MAX:,} bytes", EXPANSION_HINT)


CACHED_BYTES_MAX = 16 * 1024
PLAIN_HINT = "use only what JSON has: mappings, lists, text, numbers, true, false and null"
MARKS = frozenset((secret_marks.SECRET, secret_marks.TEXT))

Expressions = Literal["none", "cel", "braces"]
"""Which expressions values may contain: none (data of dialects and kinds), CEL (definitions), or ``{{ }}``."""

Maker = Callable[[ExpressionScope, TextExpansion], Any]
"""Builds a value in a scope; text that it builds is counted."""


class Template:
    """A compiled template: what it `reads`, the `roots` of that, whether it is `constant`, and its evaluation in a scope."""

    __slots__ = ("_expands", "_make", "constant", "reads", "roots")

    def __init__(self, make: Maker, reads: frozenset[ExpressionRead], constant: bool, expands: bool = False) -> None:
        self._make, self.reads, self.constant, self._expands = make, reads, constant, expands
        self.roots = frozenset(read.root for read in reads)

    def evaluate(self, scope: ExpressionScope) -> Any:
        """Returns the value. It may share parts with the template or the scope, so the caller must not change it.

        Raises:
            ExpressionFailed: a required value is missing, or the result is too large.
        """
        try:
            made = self._make(scope, TextExpansion())
            return check_expansion(made) if self._expands else made
        except RecursionError:
            raise ExpressionFailed("", "what is put into text nests too deep", "put in a part of it") from None


def compile_template(value: Any, missing: MissingPolicy = "error", expressions: Expressions = "none") -> Template:
    """Compiles a template; returns the same object for the same small value while it is in use.

    Raises:
        BadExpression: it has a reference that can't be parsed, or is not plain data.
    """
    key = pack_value(value)
    return _cached(key, missing, expressions) if len(key) <= CACHED_BYTES_MAX else _compile(unpack_value(key), missing, expressions)


def pack_value(value: Any) -> bytes:
    """Packs a value to bytes, the same for equal values, as a key for caches.

    Raises:
        BadExpression: it is not plain data.
    """
    try:
        return msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise BadExpression("", plain_data_problem(value) or "it can't be stored", PLAIN_HINT) from None


def unpack_value(key: bytes) -> Any:
    """Unpacks a value that `pack_value` has packed, as a new copy.

    Raises:
        BadExpression: it is not plain data.
    """
    value = msgspec.msgpack.decode(key)
    if what := plain_data_problem(value):
        raise BadExpression("", what, PLAIN_HINT)
    return value


def plain_data_problem(value: Any, depth: int = 0) -> str:
    """Returns why a value is not plain data or nests too deep; empty if it is valid."""
    match value:
        case None | bool():
            return ""
        case int():
            return "" if -(2**63) <= value < 2**64 else "a number has more than 64 bits"
        case float():
            return "" if value - value == 0 else "a number is not finite"
        case str():
            return "" if value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value) else "a text contains a lone surrogate"
        case list() | dict() if depth >= DEPTH_MAX:
            return f"it nests more than {DEPTH_MAX} levels deep"
        case list():
            return next(filter(None, (plain_data_problem(item, depth + 1) for item in value)), "")
        case dict() if all(isinstance(key, str) for key in value):
            return next(filter(None, (plain_data_problem(item, depth + 1) for item in (*value, *value.values()))), "")
        case dict():
            return "a key is not text"
        case _:
            return f"{type(value).__name__} is not plain data"


@lru_cache(maxsize=2048)
def _cached(key: bytes, missing: MissingPolicy, expressions: Expressions) -> Template:
    return _compile(unpack_value(key), missing, expressions)


def _compile(value: Any, missing: MissingPolicy, expressions: Expressions) -> Template:
    compiler = _TemplateCompiler(missing, expressions)
    make = compiler.maker(value, "")
    expands = make is not None and _expands(value, expressions)
    return Template(make or (lambda scope, expansion: value), frozenset(compiler.reads), make is None, expands)


def _expands(value: Any, expressions: Expressions) -> bool:
    """Returns whether the result may be larger than the value of one reference: there are several references, or an expression in braces."""
    count, waiting = 0, [value]
    while waiting and count < 2:
        one = waiting.pop()
        match one:
            case str():
                count += 2 if expressions == "braces" and "{{" in one else "@" in one
            case {"expr": str()} if expressions == "cel" and is_expression(one):
                count += 2
            case list():
                waiting.extend(one)
            case dict():
                waiting.extend(one.values())
    return count > 1


def is_expression(value: Any) -> bool:
    """Returns whether a mapping is an expression: `expr` is its only key, and its text is not a reference."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(said := value.get("expr"), str) and not said.startswith("@")


class _TemplateCompiler:
    """Compiles the parts of one value, and collects what they read."""

    def __init__(self, missing: MissingPolicy, expressions: Expressions) -> None:
        self.missing, self.expressions = missing, expressions
        self.reads: set[ExpressionRead] = set()

    def maker(self, value: Any, where: str) -> Maker | None:
        """Returns the function that builds a value in a scope; None if the value is the same in all scopes."""
        match value:
            case str() if self.expressions == "braces" and "{{" in value:
                return _of_braces(value, where, self.reads)
            case str():
                return _of_text(value, where, self.missing, self.reads) if "@" in value else None
            case list():
                made = [self.maker(item, f"{where}/{place}") for place, item in enumerate(value)]
                return _of_list(value, made) if any(made) else None
            case {"expr": text} if self.expressions == "cel" and is_expression(value):
                return _of_cel(text, f"{where}/expr", self.reads)
            case dict():
                if forged := MARKS & value.keys():
                    raise BadExpression(where, f"{min(forged)!r} is a reserved key, which marks the place of a secret", "refer to a secret as @secrets.NAME")
                inside = {key: self.maker(item, f"{where}/{escape_pointer_key(key)}") for key, item in value.items()}
                return _of_mapping(value, inside) if any(inside.values()) else None
            case _:
                return None


def _of_cel(text: str, where: str, reads: set[ExpressionRead]) -> Maker:
    expression = cel.compile_cel(text, where)
    reads.update(read._replace(where=where) for read in expression.reads)

    def make_value(scope: ExpressionScope, expansion: TextExpansion) -> Any:
        try:
            made = expression.evaluate(scope)
        except MissingValueError as absent:
            raise ExpressionFailed(where, absent.what, absent.hint) from None
        if what := plain_data_problem(made):
            raise ExpressionFailed(where, f"{shortened(text)!r} has a result that can't be stored: {what}", "convert it with string(x), int(x) or double(x)")
        return made

    return make_value


def _of_braces(value: str, where: str, reads: set[ExpressionRead]) -> Maker:
    expression = language.compile_braces_text(value, where)
    reads.update(read._replace(where=where) for read in expression.reads)

    def make_text(scope: ExpressionScope, expansion: TextExpansion) -> Any:
        made = expression.evaluate(scope, where)
        if type(made) is str:
            expansion.text(len(made), where)
        return made

    return make_text


def _of_list(value: list[Any], made: list[Maker | None]) -> Maker:
    parts = list(zip(value, made, strict=True))
    return lambda scope, expansion: [item if make is None else make(scope, expansion) for item, make in parts]


def _of_mapping(value: dict[str, Any], made: dict[str, Maker | None]) -> Maker:
    changing = [(key, make) for key, make in made.items() if make is not None]

    def make_mapping(scope: ExpressionScope, expansion: TextExpansion) -> Any:
        result = value.copy()
        for key, make in changing:
            result[key] = make(scope, expansion)
        return result

    return make_mapping


def _of_text(value: str, where: str, missing: MissingPolicy, reads: set[ExpressionRead]) -> Maker | None:
    if len(value) > TEXT_CHARACTERS_MAX and ("@{" in value or value[0] == "@"):
        raise BadExpression(
            where, f"a text with references has {len(value):,} characters", f"write at most {TEXT_CHARACTERS_MAX:,}, and build the rest in a step"
        )
    if value[0] == "@" and value[1:2] not in ("@", "{"):
        parts: list[str | Reference] = [parse_reference(value, where)]
    else:
        parts = merge_texts(text_parts(value, where))
    if all(isinstance(part, str) for part in parts):
        literal = "".join(map(str, parts))
        return None if literal == value else lambda scope, expansion: literal
    reads.update(part.read(where) for part in parts if isinstance(part, Reference))
    made = [part if isinstance(part, str) else reference_value_getter(part, where, missing) for part in parts]
    whole = made[0]
    if len(made) == 1 and not isinstance(whole, str):
        return whole
    if any(isinstance(part, Reference) and part.root == "secrets" for part in parts):
        return _around_secrets([(make, isinstance(part, Reference) and part.root == "secrets") for part, make in zip(parts, made, strict=True)], where)
    return _joined(made, where)


def text_parts(value: str, where: str) -> Iterator[str | Reference]:
    """Yields the parts of a text: plain text, and the references in braces.

    Raises:
        BadExpression: a reference can't be parsed, or its brace is not closed.
    """
    behind = 0
    while (at := value.find("@", behind)) >= 0:
        yield value[behind:at]
        if value.startswith("{", at + 1):
            ref, end = scan_reference(value, _blanks(value, at + 2), where)
            end = _blanks(value, end)
            if not value.startswith("}", end):
                raise BadExpression(where, f"{shortened(value[at:])!r} is not closed where it should be (character {end + 1})", "write @{step.field}", end + 1)
            yield ref
            behind = end + 1
        else:
            yield "@"
            behind = at + (2 if value.startswith("@", at + 1) else 1)
    yield value[behind:]


def _blanks(value: str, start: int) -> int:
    while value.startswith(" ", start):
        start += 1
    return start


def merge_texts(parts: Iterator[str | Reference]) -> list[str | Reference]:
    """Joins adjacent texts, and drops empty ones."""
    made: list[str | Reference] = []
    for part in parts:
        if isinstance(part, Reference) or not made or isinstance(made[-1], Reference):
            made.extend([part] if part else [])
        else:
            made[-1] = str(made[-1]) + part
    return made


def reference_value_getter(ref: Reference, where: str, missing: MissingPolicy) -> Maker:
    """Returns the function that reads a reference; it treats a missing value by the policy `missing`."""
    find = reference_getter(ref)

    def or_failed(scope: ExpressionScope, expansion: TextExpansion) -> Any:
        try:
            return find(scope)
        except MissingValueError as absent:
            if missing == "error" or (missing == "null" and isinstance(absent, RootUnavailableError)):
                raise ExpressionFailed(where, absent.what, absent.hint) from None
            return None

    return or_failed


def _joined(made: list[str | Maker], where: str) -> Maker:
    def join(scope: ExpressionScope, expansion: TextExpansion) -> Any:
        return "".join([_piece(part, scope, expansion, where) for part in made])

    return join


def _around_secrets(made: list[tuple[str | Maker, bool]], where: str) -> Maker:
    def mark(scope: ExpressionScope, expansion: TextExpansion) -> Any:
        return secret_marks.text_mark([part(scope, expansion) if secret and callable(part) else _piece(part, scope, expansion, where) for part, secret in made])

    return mark


def _piece(part: str | Maker, scope: ExpressionScope, expansion: TextExpansion, where: str) -> str:
    made = part if isinstance(part, str) else text_of_value(part(scope, expansion))
    expansion.text(len(made), where)
    return made
