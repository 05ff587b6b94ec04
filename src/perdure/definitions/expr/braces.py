"""Compiles and evaluates the ``{{ }}`` language of the port graph dialect.

The operators are JavaScript's, and a missing value is null. A text that is one ``{{ expression }}`` becomes its value, of any type; inside other text the
value is inserted. A condition is an expression without braces around it; braces inside it count as parentheses. A secret can
be passed on as it is, but not be computed with.

A name is a root (``steps lastOutput loop input secrets organizationId now nowMs``) or a variable: the item of the surrounding loop, else one of `vars`, else
one of `input`, else null. In a condition on items, a name is a field of the item.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from perdure.core.errors import BadExpression, ExpressionFailed
from perdure.definitions.expr import braces_syntax as grammar
from perdure.definitions.expr import braces_syntax as n
from perdure.definitions.expr import lenient_values, secret_marks
from perdure.definitions.expr.braces_filters import FILTERS, BracesEvaluation, BracesFunction, moment_iso_text
from perdure.definitions.expr.braces_syntax import BracesParser, braces_tokens, parse_braces, refuse_too_long, unquoted_text
from perdure.definitions.expr.references import ExpressionRead, ExpressionScope

BRACES_ROOTS = frozenset(("steps", "lastOutput", "loop", "input", "secrets", "organizationId", "now", "nowMs"))
_NATIVE_ROOTS = frozenset(("vars", "execution", "trigger", "last", "self", "error", "steps", "loop", "input", "secrets"))
"""Roots of the native format that this language does not have: here such a name is a variable."""

STEP_TYPES_OF_VERBS = {"tool": "action", "call": "action", "task": "action", "set": "action", "test": "condition", "approve": "approval", "do": "trigger"}
"""The names that port_graph has for verbs of the native format."""


class BracesCompiler:
    """Compiles the nodes of one text. `where` is the location for errors. With `of_items`, names are fields of the item, and comparing null is false."""

    def __init__(self, where: str = "", of_items: bool = False) -> None:
        self.where, self.of_items = where, of_items

    def of(self, node: n.BracesNode) -> BracesFunction:
        """Returns the function that computes `node`.

        Raises:
            BadExpression: it uses an unknown filter, or all steps at once.
        """
        match node:
            case n.BracesLiteral(value):
                return lambda run: value
            case n.BracesName(name):
                return _field(name) if self.of_items else self._name(name)
            case n.BracesCurrentItem():
                return lambda run: run.item
            case n.BracesAccess(base, parts):
                return self._access(base, parts)
            case n.BracesNot(operand):
                inner = self.of(operand)
                return lambda run: not lenient_values.js_truthy(inner(run))
            case n.BracesSigned(sign, operand):
                return self._signed(sign, operand)
            case n.BracesChain(first, rest):
                return self._chain(first, rest)
            case n.BracesShortCircuit(sign, operands):
                return _short_circuit(sign, [self.of(operand) for operand in operands])
            case n.BracesConditional(test, yes, no):
                return _conditional(self.of(test), self.of(yes) if yes else None, self.of(no))
            case n.BracesList(items):
                meanings = [self.of(item) for item in items]
                return lambda run: [meaning(run) for meaning in meanings]
            case n.BracesMapping(entries):
                keyed = [(key, self.of(item)) for key, item in entries]
                return lambda run: {key: meaning(run) for key, meaning in keyed}
            case n.BracesText(pieces):
                return pieced_text([piece if isinstance(piece, str) else self.of(piece) for piece in pieces])

    def _name(self, name: str) -> BracesFunction:
        match name:
            case "steps":
                raise BadExpression(self.where, "'steps' alone means all steps at once", "name one: steps.NAME.output.data")
            case "secrets":
                raise BadExpression(self.where, "'secrets' alone means all secrets at once", "name one: secrets.NAME")
            case "lastOutput":
                return lambda run: _output(run, run.root("lastOutput") or run.root("last"))
            case "loop" | "input":
                return lambda run: run.root(name)
            case "organizationId":
                return _organization
            case "variables":
                return _variables
            case "now":
                return lambda run: moment_iso_text(run.now_s() * 1000)
            case "nowMs":
                return lambda run: int(run.now_s() * 1000)
            case _:
                return _variable(name)

    def _access(self, base: n.BracesNode, parts: tuple[n.BracesPart, ...]) -> BracesFunction:
        if not self.of_items and isinstance(base, n.BracesName) and base.name in ("steps", "secrets"):
            first, parts = parts[0], parts[1:]
            start = self._step(first) if base.name == "steps" else self._secret(first)
        else:
            start = self.of(base)
        takes = [self._part(part) for part in parts]

        def access(run: BracesEvaluation) -> Any:
            value = start(run)
            for take in takes:
                value = take(run, value)
            return value

        return access if len(takes) != 1 else _taken(start, takes[0])

    def _step(self, part: n.BracesPart) -> BracesFunction:
        match part:
            case n.BracesMember(name) | n.BracesIndex(n.BracesLiteral(str(name))):
                return lambda run: _entry(run, name)
            case n.BracesIndex(index):
                meaning = self.of(index)
                return lambda run: _entry(run, run.text(meaning(run)))
            case _:
                return self._name("steps")

    def _secret(self, part: n.BracesPart) -> BracesFunction:
        match part:
            case n.BracesMember(name) | n.BracesIndex(n.BracesLiteral(str(name))):
                return lambda run: secret_marks.secret_mark(name)
            case _:
                return self._name("secrets")

    def _part(self, part: n.BracesPart) -> Any:
        match part:
            case n.BracesMember(name):
                return lambda run, value: (
                    value.get(name) if isinstance(value, dict) else len(value) if name == "length" and isinstance(value, list | str) else None
                )
            case n.BracesIndex(index):
                meaning = self.of(index)
                return lambda run, value: _indexed(run, value, meaning(run))
            case n.BracesSelection(condition):
                return _selection(self.of(condition))
            case n.BracesPipe(name, arguments, at):
                return self._filter(name, [self.of(argument) for argument in arguments], at)

    def _filter(self, name: str, arguments: list[BracesFunction], at: int) -> Any:
        known = FILTERS.get(name)
        if known is None:
            meant = [one for one in FILTERS if one.lower() == name.lower()] or get_close_matches(name[:100], FILTERS, 1)
            hint = f"did you mean {meant[0]!r}?" if meant else f"use one of {', '.join(sorted(FILTERS))}"
            raise BadExpression(self.where, f"{name[:40]!r} is not a filter", hint, at)
        if not known.least <= len(arguments) <= known.most:
            takes = f"{known.least}" if known.least == known.most else f"{known.least} to {known.most}"
            raise BadExpression(self.where, f"the filter {name!r} takes {takes} arguments, found {len(arguments)}", f"write it as in  items|{name}", at)
        make = known.make
        if not arguments:
            return make
        return lambda run, value: make(run, value, *[argument(run) for argument in arguments])

    def _signed(self, sign: str, operand: n.BracesNode) -> BracesFunction:
        inner = self.of(operand)
        if sign == "+":
            return lambda run: lenient_values.js_number(run.weighed(inner(run)))
        return lambda run: lenient_values.js_calculate(0, "-", lenient_values.js_number(run.weighed(inner(run))))

    def _chain(self, first: n.BracesNode, rest: tuple[tuple[str, n.BracesNode], ...]) -> BracesFunction:
        start = self.of(first)
        steps = [(self._operator(sign), self.of(operand)) for sign, operand in rest]

        def chain(run: BracesEvaluation) -> Any:
            value = start(run)
            for operate, operand in steps:
                value = operate(run, value, operand(run))
            return value

        return chain

    def _operator(self, sign: str) -> Any:
        match sign:
            case "==":
                return lambda run, one, two: lenient_values.loosely_equal(run.weighed(one), run.weighed(two))
            case "!=":
                return lambda run, one, two: not lenient_values.loosely_equal(run.weighed(one), run.weighed(two))
            case "===":
                return lambda run, one, two: lenient_values.strictly_equal(run.weighed(one), run.weighed(two))
            case "!==":
                return lambda run, one, two: not lenient_values.strictly_equal(run.weighed(one), run.weighed(two))
            case "<" | "<=" | ">" | ">=" if self.of_items:
                order: Any = sign
                return lambda run, one, two: None not in (one, two) and lenient_values.js_compare(run.weighed(one), order, run.weighed(two))
            case "<" | "<=" | ">" | ">=":
                order = sign
                return lambda run, one, two: lenient_values.js_compare(run.weighed(one), order, run.weighed(two))
            case "in":
                return lambda run, one, two: FILTERS["includes"].make(run, two, one)
            case "+":
                return _added
            case _:
                calculation: Any = sign
                return lambda run, one, two: lenient_values.js_calculate(run.weighed(one), calculation, run.weighed(two))


def _added(run: BracesEvaluation, one: Any, two: Any) -> Any:
    if isinstance(one, str | list | dict) or isinstance(two, str | list | dict):
        one, two = run.text(one), run.text(two)
        run.sized(len(one) + len(two))
        return one + two
    return lenient_values.js_calculate(one, "+", two)


def pieced_text(pieces: list[str | BracesFunction]) -> BracesFunction:
    """Returns a function that joins the pieces to one text."""

    def put_together(run: BracesEvaluation) -> str:
        texts = [piece if isinstance(piece, str) else lenient_values.js_shown(run.weighed(piece(run))) for piece in pieces]
        run.sized(sum(map(len, texts)))
        return "".join(texts)

    return put_together


def _short_circuit(sign: str, meanings: list[BracesFunction]) -> BracesFunction:
    def either(run: BracesEvaluation) -> Any:
        value = None
        for meaning in meanings:
            value = meaning(run)
            if (value is not None) if sign == "??" else lenient_values.js_truthy(value) == (sign == "||"):
                return value
        return value

    return either


def _conditional(test: BracesFunction, yes: BracesFunction | None, no: BracesFunction) -> BracesFunction:
    def choose(run: BracesEvaluation) -> Any:
        value = test(run)
        if not lenient_values.js_truthy(value):
            return no(run)
        return value if yes is None else yes(run)

    return choose


def _taken(start: BracesFunction, take: Any) -> BracesFunction:
    return lambda run: take(run, start(run))


def _selection(holds: BracesFunction) -> Any:
    def those(run: BracesEvaluation, value: Any) -> list[Any]:
        if not isinstance(value, list):
            return []
        outer, found = run.item, []
        for item in value:
            run.spend(8)
            run.item = item
            if lenient_values.js_truthy(holds(run)):
                found.append(item)
        run.item = outer
        return found

    return those


def _length_or_none(run: BracesEvaluation, value: Any) -> Any:
    if isinstance(value, dict):
        return value.get("length")
    return len(value) if isinstance(value, list | str) else None


def _indexed(run: BracesEvaluation, value: Any, index: Any) -> Any:
    if isinstance(value, dict):
        return value.get(run.text(index))
    if not isinstance(value, list | str) or isinstance(index, bool | list | dict | None):
        return None
    if index == "length":
        return len(value)
    place = lenient_values.js_number(index) if not isinstance(index, str) or index.isdecimal() else -1
    return value[int(place)] if 0 <= place < len(value) and place == int(place) else None


def _entry(run: BracesEvaluation, id: str) -> Any:
    """Returns the value of ``steps.NAME``: its type, its name and its result."""
    envelope = run.envelope(id)
    output = _output(run, envelope)
    return None if output is None else {"stepType": output.get("type"), "name": envelope.get("name", id), "output": output}


def _output(run: BracesEvaluation, envelope: Any) -> Any:
    """Returns the result of a step, with port_graph's name for the type of the step. That of a trigger says in its metadata what has started the execution."""
    if not isinstance(envelope, dict):
        return None
    known = {name: value for name, value in envelope.items() if name != "name"}
    known["type"] = STEP_TYPES_OF_VERBS.get(str(envelope.get("type")), envelope.get("type"))
    if known["type"] == "trigger" and isinstance(facts := run.root("trigger"), dict) and facts.keys() >= {"kind", "at_s"}:
        known["meta"] = {"trigger": {"type": facts["kind"], "receivedAt": moment_iso_text(facts["at_s"] * 1000)}}
    return known


def _variable(name: str) -> BracesFunction:
    def variable(run: BracesEvaluation) -> Any:
        if name not in _NATIVE_ROOTS:
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


def _variables(run: BracesEvaluation) -> Any:
    """Returns all variables by name, or the variable that is itself named so."""
    own = _variable("variables")(run)
    if own is not None:
        return own
    found = [values for root in ("input", "vars") if isinstance(values := run.root(root), dict)]
    return {name: value for values in found for name, value in values.items()}


def _organization(run: BracesEvaluation) -> Any:
    """Returns the tenant. For the default tenant, a variable of that name takes precedence, from the definition or the input."""
    execution = run.root("execution")
    tenant = execution.get("tenant") if isinstance(execution, dict) else None
    own = _variable("organizationId")(run) if tenant in (None, "", "default") else None
    return tenant if own is None else own


def _field(name: str) -> BracesFunction:
    def field(run: BracesEvaluation) -> Any:
        item = run.item
        if isinstance(item, dict) and name in item:
            return item[name]
        return item if name == "item" else None

    return field


@lru_cache(maxsize=512)
def item_expression(text: str) -> BracesFunction:
    """Compiles an expression about an item, whose fields are its names.

    Raises:
        BadExpression: the text is not an expression.
    """
    return BracesCompiler(of_items=True).of(grammar.parse_braces(text))


SECTIONS = "#^/>="
NamedPath = tuple[str, tuple[str | int, ...]]


class BracesExpression:
    """A compiled text: the `names` in it, each with the path that follows; what it `reads`, each with an empty `where`; and its value in a scope."""

    __slots__ = ("_make", "names", "reads")

    def __init__(self, make: BracesFunction, nodes: Iterable[n.BracesNode]) -> None:
        self._make = make
        self.names = tuple(dict.fromkeys(named for node in nodes for named in _names_in_node(node)))
        self.reads = frozenset(read for name, path in self.names for read in _read(name, path))

    def evaluate(self, scope: ExpressionScope, where: str = "") -> Any:
        """Returns the value, which the caller must not change. `where` is the location for errors.

        Raises:
            ExpressionFailed: the evaluation exceeds its cost limit.
        """
        try:
            return self._make(BracesEvaluation(scope, item_expression))
        except ExpressionFailed as error:
            raise ExpressionFailed(where, error.what, error.hint) from None


def compile_braces_text(value: str, where: str = "") -> BracesExpression:
    """Compiles a text with ``{{ }}``; returns the same object for the same text.

    Raises:
        BadExpression: the text can't be parsed.
    """
    return _placed(_compile_text, value, where)


def compile_braces_condition(value: str, where: str = "") -> BracesExpression:
    """Compiles a condition, whose value is true or false.

    Raises:
        BadExpression: the text can't be parsed.
    """
    return _placed(_compile_condition, value, where)


def _placed(compile: Any, value: str, where: str) -> BracesExpression:
    try:
        expression: BracesExpression = compile(value)
    except BadExpression as error:
        at = f" (character {error.at})" if error.at else ""
        raise BadExpression(where, f"{_cut(value)!r}: {error.what}{at}", error.hint, error.at) from None
    return expression


def _cut(value: str) -> str:
    return value if len(value) <= 60 else value[:57] + "…"


@lru_cache(maxsize=4096)
def _compile_text(value: str) -> BracesExpression:
    refuse_too_long(value, "")
    pieces = list(_pieces(value))
    nodes = [piece for piece in pieces if not isinstance(piece, str)]
    if len(pieces) == 1 and nodes:
        _keep_secrets(nodes[0], passed_on=True)
        return BracesExpression(_finished(nodes[0]), nodes)
    secret = [isinstance(piece, n.BracesAccess) and piece.base == n.BracesName("secrets") and len(piece.parts) == 1 for piece in pieces]
    for piece, is_secret in zip(pieces, secret, strict=True):
        if not isinstance(piece, str) and not is_secret:
            _keep_secrets(piece, passed_on=False)
    made = [piece if isinstance(piece, str) else BracesCompiler().of(piece) for piece in pieces]
    return BracesExpression(_marked(made, secret) if any(secret) else _joined(made), nodes)


def _joined(made: list[str | BracesFunction]) -> BracesFunction:
    def join(run: BracesEvaluation) -> str:
        return "".join(_shown(run, made))

    return join


def _shown(run: BracesEvaluation, made: list[str | BracesFunction]) -> list[str]:
    texts = [piece if isinstance(piece, str) else lenient_values.js_shown(run.weighed(piece(run))) for piece in made]
    run.sized(sum(map(len, texts)))
    return texts


def _marked(made: list[str | BracesFunction], secret: list[bool]) -> BracesFunction:
    """Returns a function that builds a text with secrets: its parts, with a mark for each secret."""

    def mark(run: BracesEvaluation) -> Any:
        shown = iter(_shown(run, [piece for piece, is_secret in zip(made, secret, strict=True) if not is_secret]))
        return secret_marks.text_mark(
            [piece(run) if is_secret and not isinstance(piece, str) else next(shown) for piece, is_secret in zip(made, secret, strict=True)]
        )

    return mark


def rename_braces_steps(value: str, names: Mapping[str, str], whole: bool = False) -> str:
    """Renames the steps in a text that compiles. With `whole`, the text is a condition."""
    if whole:
        return _renamed(value, names)
    made, behind = list[str](), 0
    while (opening := value.find("{{", behind)) >= 0:
        end, start = _tag(value, opening)[1], _inside(value, opening + 2)
        made += value[behind:start], _renamed(value[start : end - 2], names), "}}"
        behind = end
    return "".join(made) + value[behind:]


def _renamed(value: str, names: Mapping[str, str]) -> str:
    found = braces_tokens(value)
    for before, root, opening, named in reversed(list(zip([None, *found], found, found[1:], found[2:], strict=False))):
        if root.said != "steps" or root.kind != "name" or (before and before.said in (".", "?.", "|")):
            continue
        quoted = opening.said == "[" and named.kind == "text"
        original = unquoted_text(named.said) if quoted else named.said
        if (quoted or (opening.said in (".", "?.") and named.kind == "name")) and original in names:
            called = names[original]
            value = value[: named.start] + (f"'{called}'" if quoted else called) + value[named.end :]
    return value


@lru_cache(maxsize=4096)
def _compile_condition(value: str) -> BracesExpression:
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise BadExpression("", "a text contains a lone surrogate", "remove it")
    node = parse_braces(value, pieces=_quoted)
    _keep_secrets(node, passed_on=False)
    meaning = BracesCompiler().of(node)
    return BracesExpression(lambda run: lenient_values.js_truthy(meaning(run)), [node])


def _quoted(value: str, where: str) -> n.BracesNode:
    return n.BracesText(tuple(_pieces(value)))


def _pieces(value: str) -> Iterator[str | n.BracesNode]:
    """Yields the parts of a text: plain text, and the expressions in it."""
    behind = 0
    while (opening := value.find("{{", behind)) >= 0:
        if opening > behind:
            yield value[behind:opening]
        node, behind = _tag(value, opening)
        yield node
    if behind < len(value):
        yield value[behind:]


def _tag(value: str, opening: int) -> tuple[n.BracesNode, int]:
    """Returns the expression between the braces that open at `opening`, and the position after the closing ones."""
    if value.startswith("{{{", opening):
        try:
            return _between(value, opening + 3, "}}}")
        except BadExpression:  # not {{{ expression }}}: the third brace opens an object
            return _between(value, opening + 2, "}}")
    return _between(value, opening + 2, "}}")


def _between(value: str, start: int, closing: str) -> tuple[n.BracesNode, int]:
    inside = _blanks(value, start)
    if value[inside : inside + 1] in set(SECTIONS):
        raise BadExpression("", f"{value[inside]!r} opens a section", "use steps instead: the language has no sections, partials and comments", inside + 1)
    if value.startswith("}}", inside):
        raise BadExpression("", "there is nothing between {{ and }}", "write an expression there, or '{{' in quotes to mean the braces", inside + 1)
    grammar = BracesParser(value, _inside(value, start))
    node = grammar.expression()
    end = grammar.token.start
    if not value.startswith(closing, end):
        seen = repr(grammar.token.said[:40]) if grammar.token.kind != "end" else "the end"
        raise BadExpression("", f"{seen} is unexpected, {closing!r} was expected", 'write  {{ expression }}, or  {{ "{{" }}  to mean the braces', end + 1)
    return node, end + len(closing)


def _blanks(value: str, start: int) -> int:
    return len(value) - len(value[start:].lstrip())


def _inside(value: str, start: int) -> int:
    """Returns the position of the expression after opening braces, which an & may follow."""
    inside = _blanks(value, start)
    return inside + value.startswith("&", inside)


def _finished(node: n.BracesNode) -> BracesFunction:
    """Compiles a whole expression, whose result is null instead of a number that JSON can't hold."""
    meaning = BracesCompiler().of(node)
    if isinstance(node, n.BracesName | n.BracesLiteral) or (
        isinstance(node, n.BracesAccess) and not any(isinstance(part, n.BracesPipe) for part in node.parts)
    ):
        return meaning
    return lambda run: lenient_values.json_number(run.weighed(meaning(run)))


def _inner(node: n.BracesNode | n.BracesPart) -> tuple[n.BracesNode | n.BracesPart, ...]:
    match node:
        case n.BracesAccess(base, parts):
            return (base, *parts)
        case n.BracesIndex(inner) | n.BracesSelection(inner) | n.BracesNot(inner) | n.BracesSigned(_, inner):
            return (inner,)
        case n.BracesPipe(_, inners, _) | n.BracesList(inners) | n.BracesShortCircuit(_, inners):
            return inners
        case n.BracesChain(first, rest):
            return (first, *(operand for _, operand in rest))
        case n.BracesConditional(test, yes, no):
            return (test, *([yes] if yes else []), no)
        case n.BracesMapping(entries):
            return tuple(item for _, item in entries)
        case n.BracesText(pieces):
            return tuple(piece for piece in pieces if not isinstance(piece, str))
        case _:
            return ()


def _names_in_node(node: n.BracesNode | n.BracesPart) -> Iterator[NamedPath]:
    """Yields the names in an expression, each with the constant part of the path that follows."""
    match node:
        case n.BracesName(name):
            yield name, ()
        case n.BracesAccess(n.BracesName(name), parts):
            yield name, tuple(_steady(parts))
            for part in parts:
                yield from _names_in_node(part)
        case _:
            for inner in _inner(node):
                yield from _names_in_node(inner)


def _steady(parts: tuple[n.BracesPart, ...]) -> Iterator[str | int]:
    for part in parts:
        match part:
            case n.BracesMember(key) | n.BracesIndex(n.BracesLiteral(str(key))):
                yield key
            case n.BracesIndex(n.BracesLiteral(int(place))):
                yield place
            case _:
                return


def _read(name: str, path: tuple[str | int, ...]) -> Iterator[ExpressionRead]:
    match name:
        case "steps":
            if path:
                yield ExpressionRead("steps", str(path[0]), path[2:] if path[1:2] == ("output",) else (), "")
        case "lastOutput":
            yield ExpressionRead("last", "", path, "")
        case "organizationId":
            yield ExpressionRead("execution", "", ("tenant",), "")
        case "now" | "nowMs":
            yield ExpressionRead("execution", "", ("now_s",), "")
        case _ if name in BRACES_ROOTS:
            yield ExpressionRead(name, "", path, "")
        case _:
            yield ExpressionRead("vars", "", (name, *path), "")


def _keep_secrets(node: n.BracesNode | n.BracesPart, passed_on: bool) -> None:
    """Raises BadExpression where a secret is used other than being passed on."""
    match node:
        case n.BracesAccess(n.BracesName("secrets"), parts):
            if not passed_on or len(parts) != 1:
                hint = "write {{ secrets.NAME }}, alone or inside text, and work with it in the step"
                raise BadExpression("", "a secret can only be passed on as it is", hint)
        case n.BracesConditional(test, yes, no):
            _keep_secrets(test, passed_on=False)
            _keep_secrets(no, passed_on)
            if yes:
                _keep_secrets(yes, passed_on)
        case _:
            for inner in _inner(node):
                _keep_secrets(inner, passed_on and isinstance(node, n.BracesList | n.BracesMapping))
