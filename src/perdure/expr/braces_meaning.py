"""What the nodes of the ``{{ }}`` language mean: each becomes a function from an evaluation to a value.

A name is a root (``steps lastOutput loop input secrets organizationId now nowMs``), or a variable: what the loop around it calls its item, else one of
`vars`, else one of `input`, else null. In a condition on items, a name is a field of the item.
"""

from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr import braces_grammar as grammar
from perdure.expr import braces_nodes as n
from perdure.expr import loose, marks
from perdure.expr.braces_filters import FILTERS
from perdure.expr.braces_run import Meaning, Run
from perdure.expr.braces_time import iso_text

ROOTS = frozenset(("steps", "lastOutput", "loop", "input", "secrets", "organizationId", "now", "nowMs"))
NATIVE = frozenset(("vars", "execution", "trigger", "last", "self", "error", "steps", "loop", "input", "secrets"))
"""Roots of the format itself, which are none here: a name that is called so is a variable."""

TYPES = {"tool": "action", "call": "action", "task": "action", "set": "action", "test": "condition", "approve": "approval", "do": "trigger"}
"""What seed 003 calls the verbs that it has under other names."""


class Meanings:
    """The meanings of one text's nodes; `where` stands in errors. With `of_items`, names are fields of the item, and nothing is less or more than null."""

    def __init__(self, where: str = "", of_items: bool = False) -> None:
        self.where, self.of_items = where, of_items

    def of(self, node: n.Node) -> Meaning:
        """What `node` means.

        Raises:
            BadExpression: it asks for a filter that there is not, or for all steps at once.
        """
        match node:
            case n.Literal(value):
                return lambda run: value
            case n.Name(name):
                return _field(name) if self.of_items else self._name(name)
            case n.Here():
                return lambda run: run.item
            case n.Access(base, parts):
                return self._access(base, parts)
            case n.Not(operand):
                inner = self.of(operand)
                return lambda run: not loose.truthy(inner(run))
            case n.Signed(sign, operand):
                return self._signed(sign, operand)
            case n.Chain(first, rest):
                return self._chain(first, rest)
            case n.Either(sign, operands):
                return _either(sign, [self.of(operand) for operand in operands])
            case n.Choice(test, yes, no):
                return _choice(self.of(test), self.of(yes) if yes else None, self.of(no))
            case n.Items(items):
                meanings = [self.of(item) for item in items]
                return lambda run: [meaning(run) for meaning in meanings]
            case n.Entries(entries):
                keyed = [(key, self.of(item)) for key, item in entries]
                return lambda run: {key: meaning(run) for key, meaning in keyed}
            case n.Pieces(pieces):
                return pieced([piece if isinstance(piece, str) else self.of(piece) for piece in pieces])

    def _name(self, name: str) -> Meaning:
        match name:
            case "steps":
                raise BadExpression(self.where, "'steps' stands for all steps at once", "name one: steps.NAME.output.data")
            case "secrets":
                raise BadExpression(self.where, "'secrets' stands for all secrets at once", "name one: secrets.NAME")
            case "lastOutput":
                return lambda run: _output(run.root("lastOutput") or run.root("last"))
            case "loop" | "input":
                return lambda run: run.root(name)
            case "organizationId":
                return _organization
            case "variables":
                return _variables
            case "now":
                return lambda run: iso_text(run.now_s() * 1000)
            case "nowMs":
                return lambda run: int(run.now_s() * 1000)
            case _:
                return _variable(name)

    def _access(self, base: n.Node, parts: tuple[n.Part, ...]) -> Meaning:
        if not self.of_items and isinstance(base, n.Name) and base.name in ("steps", "secrets"):
            first, parts = parts[0], parts[1:]
            start = self._step(first) if base.name == "steps" else self._secret(first)
        else:
            start = self.of(base)
        takes = [self._part(part) for part in parts]

        def access(run: Run) -> Any:
            value = start(run)
            for take in takes:
                value = take(run, value)
            return value

        return access if len(takes) != 1 else _taken(start, takes[0])

    def _step(self, part: n.Part) -> Meaning:
        match part:
            case n.Member(name) | n.Index(n.Literal(str(name))):
                return lambda run: _entry(run, name)
            case n.Index(index):
                meaning = self.of(index)
                return lambda run: _entry(run, run.text(meaning(run)))
            case _:
                return self._name("steps")

    def _secret(self, part: n.Part) -> Meaning:
        match part:
            case n.Member(name) | n.Index(n.Literal(str(name))):
                return lambda run: marks.secret(name)
            case _:
                return self._name("secrets")

    def _part(self, part: n.Part) -> Any:
        match part:
            case n.Member(name):
                return lambda run, value: (
                    value.get(name) if isinstance(value, dict) else len(value) if name == "length" and isinstance(value, list | str) else None
                )
            case n.Index(index):
                meaning = self.of(index)
                return lambda run, value: _indexed(run, value, meaning(run))
            case n.Those(condition):
                return _those(self.of(condition))
            case n.Pipe(name, arguments, at):
                return self._filter(name, [self.of(argument) for argument in arguments], at)

    def _filter(self, name: str, arguments: list[Meaning], at: int) -> Any:
        known = FILTERS.get(name)
        if known is None:
            meant = [one for one in FILTERS if one.lower() == name.lower()] or get_close_matches(name[:100], FILTERS, 1)
            hint = f"did you mean {meant[0]!r}?" if meant else f"there are {', '.join(sorted(FILTERS))}"
            raise BadExpression(self.where, f"{name[:40]!r} is not a filter", hint, at)
        if not known.least <= len(arguments) <= known.most:
            takes = f"{known.least}" if known.least == known.most else f"{known.least} to {known.most}"
            raise BadExpression(self.where, f"the filter {name!r} takes {takes} arguments, found {len(arguments)}", f"as in  items|{name}", at)
        make = known.make
        if not arguments:
            return make
        return lambda run, value: make(run, value, *[argument(run) for argument in arguments])

    def _signed(self, sign: str, operand: n.Node) -> Meaning:
        inner = self.of(operand)
        if sign == "+":
            return lambda run: loose.number(run.weighed(inner(run)))
        return lambda run: loose.calculated(0, "-", loose.number(run.weighed(inner(run))))

    def _chain(self, first: n.Node, rest: tuple[tuple[str, n.Node], ...]) -> Meaning:
        start = self.of(first)
        steps = [(self._operator(sign), self.of(operand)) for sign, operand in rest]

        def chain(run: Run) -> Any:
            value = start(run)
            for operate, operand in steps:
                value = operate(run, value, operand(run))
            return value

        return chain

    def _operator(self, sign: str) -> Any:
        match sign:
            case "==":
                return lambda run, one, two: loose.equal(run.weighed(one), run.weighed(two))
            case "!=":
                return lambda run, one, two: not loose.equal(run.weighed(one), run.weighed(two))
            case "===":
                return lambda run, one, two: loose.same(run.weighed(one), run.weighed(two))
            case "!==":
                return lambda run, one, two: not loose.same(run.weighed(one), run.weighed(two))
            case "<" | "<=" | ">" | ">=" if self.of_items:
                order: Any = sign
                return lambda run, one, two: None not in (one, two) and loose.ordered(run.weighed(one), order, run.weighed(two))
            case "<" | "<=" | ">" | ">=":
                order = sign
                return lambda run, one, two: loose.ordered(run.weighed(one), order, run.weighed(two))
            case "in":
                return lambda run, one, two: FILTERS["includes"].make(run, two, one)
            case "+":
                return _added
            case _:
                calculation: Any = sign
                return lambda run, one, two: loose.calculated(run.weighed(one), calculation, run.weighed(two))


def _added(run: Run, one: Any, two: Any) -> Any:
    if isinstance(one, str | list | dict) or isinstance(two, str | list | dict):
        one, two = run.text(one), run.text(two)
        run.sized(len(one) + len(two))
        return one + two
    return loose.calculated(one, "+", two)


def pieced(pieces: list[str | Meaning]) -> Meaning:
    """Text put together of pieces."""

    def put_together(run: Run) -> str:
        texts = [piece if isinstance(piece, str) else loose.shown(run.weighed(piece(run))) for piece in pieces]
        run.sized(sum(map(len, texts)))
        return "".join(texts)

    return put_together


def _either(sign: str, meanings: list[Meaning]) -> Meaning:
    def either(run: Run) -> Any:
        value = None
        for meaning in meanings:
            value = meaning(run)
            if (value is not None) if sign == "??" else loose.truthy(value) == (sign == "||"):
                return value
        return value

    return either


def _choice(test: Meaning, yes: Meaning | None, no: Meaning) -> Meaning:
    def choose(run: Run) -> Any:
        value = test(run)
        if not loose.truthy(value):
            return no(run)
        return value if yes is None else yes(run)

    return choose


def _taken(start: Meaning, take: Any) -> Meaning:
    return lambda run: take(run, start(run))


def _those(holds: Meaning) -> Any:
    def those(run: Run, value: Any) -> list[Any]:
        if not isinstance(value, list):
            return []
        outer, found = run.item, []
        for item in value:
            run.spend(8)
            run.item = item
            if loose.truthy(holds(run)):
                found.append(item)
        run.item = outer
        return found

    return those


def _length_or_none(run: Run, value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("length")
    return len(value) if isinstance(value, list | str) else None


def _indexed(run: Run, value: Any, index: Any) -> Any:
    if isinstance(value, dict):
        return value.get(run.text(index))
    if not isinstance(value, list | str) or isinstance(index, bool | list | dict | None):
        return None
    if index == "length":
        return len(value)
    place = loose.number(index) if not isinstance(index, str) or index.isdecimal() else -1
    return value[int(place)] if 0 <= place < len(value) and place == int(place) else None


def _entry(run: Run, id: str) -> Any:
    """What ``steps.NAME`` stands for: its type and name, and what it gave."""
    envelope = run.envelope(id)
    output = _output(envelope)
    return None if output is None else {"stepType": output.get("type"), "name": envelope.get("name", id), "output": output}


def _output(envelope: Any) -> Any:
    """What a step gave, with the type that seed 003 has for its verb."""
    if not isinstance(envelope, dict):
        return None
    known = {name: value for name, value in envelope.items() if name != "name"}
    return known | {"type": TYPES.get(str(envelope.get("type")), envelope.get("type"))}


def _variable(name: str) -> Meaning:
    def variable(run: Run) -> Any:
        if name not in NATIVE:
            try:
                return run.scope.root(name)
            except KeyError:
                pass
        for root in ("vars", "input"):
            values = run.root(root)
            if isinstance(values, dict) and name in values:
                return values[name]
        return None

    return variable


def _variables(run: Run) -> Any:
    """All variables by their names, unless one is itself called so."""
    own = _variable("variables")(run)
    if own is not None:
        return own
    found = [values for root in ("input", "vars") if isinstance(values := run.root(root), dict)]
    return {name: value for values in found for name, value in values.items()}


def _organization(run: Run) -> Any:
    """The tenant; that of who has not named one, unless the definition or the input says what is called so."""
    execution = run.root("execution")
    tenant = execution.get("tenant") if isinstance(execution, dict) else None
    own = _variable("organizationId")(run) if tenant in (None, "", "default") else None
    return tenant if own is None else own


def _field(name: str) -> Meaning:
    def field(run: Run) -> Any:
        item = run.item
        if isinstance(item, dict) and name in item:
            return item[name]
        return item if name == "item" else None

    return field


@lru_cache(maxsize=512)
def of_items(text: str) -> Meaning:
    """The meaning of an expression about an item, whose fields are its names.

    Raises:
        BadExpression: it is none.
    """
    return Meanings(of_items=True).of(grammar.read(text))
