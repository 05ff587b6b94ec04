"""The references that a step reads, before it starts or after it has run, and their resolution to steps, roots and items of an `each`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from perdure.core.errors import BadExpression
from perdure.definitions.expr import condition, template
from perdure.definitions.expr.condition import Dollar
from perdure.definitions.expr.references import ExpressionRead
from perdure.definitions.expr.template import Expressions
from perdure.definitions.format.definition_draft import DefinitionDraft, did_you_mean
from perdure.definitions.format.definition_findings import joined_pointer
from perdure.definitions.format.model import ROOTS, SOURCE_FIELDS, transform_source, verbs_by_name
from perdure.definitions.format.step_routes import names_by_step
from perdure.definitions.format.step_tree import StepSite

CONDITIONS = ("test", "if")


class UnreadableExpression(NamedTuple):
    """A value in place of an expression that does not compile."""

    pointer: str
    what: str


class StepRead(NamedTuple):
    """One reference: by `root` "step" or "steps" to the step `name`, else to what `root` names. `late`: it is read only when the step has run."""

    root: str
    name: str
    path: tuple[str | int, ...]
    pointer: str
    late: bool = False


StepReads = Iterator[StepRead | UnreadableExpression]


def reads_before_start(site: StepSite, expressions: Expressions) -> StepReads:
    """Returns all that a step reads before its successors run, except the reads of its nested steps; values may have `expressions`."""
    step, pointer = site.step, site.pointer
    if site.verb in CONDITIONS:
        yield from _of_condition(site.value, joined_pointer(pointer, site.verb), "steps", expressions)
    elif site.verb in SOURCE_FIELDS and isinstance(site.value, Mapping):
        beside = {name: value for name, value in site.value.items() if name != SOURCE_FIELDS[site.verb]}
        yield from template_reads(beside, joined_pointer(pointer, site.verb), expressions)
    elif site.verb == "task" and isinstance(site.value, Mapping):
        about = {name: value for name, value in site.value.items() if name != "config"}
        yield from template_reads(about, joined_pointer(pointer, site.verb), expressions)
        yield from template_reads(site.value.get("config"), joined_pointer(pointer, site.verb, "config"), "none" if expressions == "cel" else expressions)
    elif (verb := verbs_by_name().get(site.verb)) is None or verb.has_template:
        has_own = verb is not None and verb.own_expressions
        yield from template_reads(site.value, joined_pointer(pointer, site.verb), "none" if has_own and expressions == "cel" else expressions)
    if "when" in step:
        yield from _of_condition(step["when"], joined_pointer(pointer, "when"), "steps", expressions)
    for field in ("with", "env"):
        if field in step:
            yield from template_reads(step[field], joined_pointer(pointer, field), expressions)
    if isinstance(each := step.get("each"), Mapping):
        yield from template_reads(each.get("in"), joined_pointer(pointer, "each", "in"), expressions)
    if isinstance(repeat := step.get("repeat"), Mapping):
        yield from _late(_of_repeat(repeat, joined_pointer(pointer, "repeat"), expressions))
    if "transform" in step and transform_source(step["transform"]) is None:
        yield from _late(template_reads(step["transform"], joined_pointer(pointer, "transform"), expressions))


def _late(found: StepReads) -> StepReads:
    return (one._replace(late=True) if isinstance(one, StepRead) else one for one in found)


def _of_repeat(repeat: Mapping[str, Any], pointer: str, expressions: Expressions) -> StepReads:
    for field in ("state", "delay"):
        if field in repeat:
            yield from template_reads(repeat[field], joined_pointer(pointer, field), expressions)
    for field in ("while", "until"):
        if field in repeat:
            yield from _of_condition(repeat[field], joined_pointer(pointer, field), "self", expressions)


def reads_after_run(site: StepSite, expressions: Expressions) -> StepReads:
    """Returns the reads after the step has run: those of its routes and of its undo."""
    undo, following = site.step.get("undo"), site.step.get("next")
    if isinstance(undo, Mapping) and "with" in undo:
        yield from template_reads(undo["with"], joined_pointer(site.pointer, "undo", "with"), expressions)
    pointer = joined_pointer(site.pointer, "next")
    if isinstance(following, Mapping) and isinstance(following.get("success"), list):
        following, pointer = following["success"], joined_pointer(pointer, "success")
    for number, rule in enumerate(following if isinstance(following, list) else ()):
        if isinstance(rule, Mapping) and rule.get("when") is not None:
            yield from _of_condition(rule["when"], joined_pointer(pointer, number, "when"), "self", expressions)


def template_reads(value: Any, pointer: str, expressions: Expressions) -> StepReads:
    """The references in a template."""
    if value is None or value is True or value is False:
        return
    try:
        reads = template.compile_template(value, expressions=expressions).reads
    except BadExpression as problem:
        yield _unreadable(problem, pointer)
    else:
        yield from _sorted(reads, pointer)


def _of_condition(value: Any, pointer: str, dollar: Dollar, expressions: Expressions) -> StepReads:
    try:
        reads = condition.compile_condition(value, dollar=dollar, expressions=expressions).reads
    except BadExpression as problem:
        yield _unreadable(problem, pointer)
    else:
        yield from _sorted(reads, pointer)


def _sorted(reads: Iterable[ExpressionRead], pointer: str) -> Iterator[StepRead]:
    """Sorts reads independently of hashes, so that equal definitions have equal IRs."""
    found = [StepRead(read.root, read.step, read.path, f"{pointer}{read.where}") for read in reads]
    return iter(sorted(found, key=lambda one: (one.pointer, one.root, one.name, str(one.path))) if len(found) > 1 else found)


def _unreadable(problem: BadExpression, pointer: str) -> UnreadableExpression:
    return UnreadableExpression(f"{pointer}{problem.where}", f"{problem.what}; {problem.hint}")


class NamesInScope:
    """The names that may be read: in the whole definition, and in each list of steps the items of the `each` around it."""

    def __init__(self, draft: DefinitionDraft) -> None:
        self.steps = draft.outline.numbers
        declared, variables = draft.canonical.get("input"), draft.canonical.get("vars")
        self.inputs: frozenset[str] = frozenset(declared) if isinstance(declared, Mapping) else frozenset()
        given = [site.value for site in draft.outline.sites if site.verb == "set"]
        self.variables = frozenset(variables if isinstance(variables, Mapping) else ()).union(*(value for value in given if isinstance(value, Mapping)))
        self.items: list[frozenset[str]] = []
        self._scopes = names_by_step(draft.canonical)
        for listing in draft.outline.lists:
            self.items.append(frozenset() if listing.owner < 0 else self.around(draft.outline.sites[listing.owner]))

    def around(self, site: StepSite) -> frozenset[str]:
        """The names in scope at a step: those of its own `each`, of surrounding ones, and of the loop whose cycle contains it."""
        outer = self.items[site.list] if site.list else self._scopes.get(site.id, frozenset())
        each = site.step.get("each")
        return outer | {str(each.get("as", "item")), str(each.get("index", "index"))} if isinstance(each, Mapping) else outer


def steps_read_by(draft: DefinitionDraft, known: NamesInScope, site: StepSite) -> Iterator[tuple[int, bool, str]]:
    """Yields the steps that a step reads: their numbers, whether only after it has run, and the pointer. Reports unknown names."""
    items = known.around(site)
    yield from _steps_among(draft, known, items, reads_before_start(site, draft.expressions))
    for _ in _steps_among(draft, known, items, reads_after_run(site, draft.expressions)):
        pass


def check_output_names(draft: DefinitionDraft, output: Any) -> None:
    """Reports unknown names in the output of the definition."""
    for _ in _steps_among(draft, NamesInScope(draft), frozenset(), template_reads(output, "/output", draft.expressions)):
        pass


def _steps_among(draft: DefinitionDraft, known: NamesInScope, items: frozenset[str], found: StepReads) -> Iterator[tuple[int, bool, str]]:
    for reading in found:
        match reading:
            case UnreadableExpression(pointer, what):
                draft.error("bad_expression", pointer, what)
            case StepRead(root="step" | "steps", name=name) if (number := known.steps.get(name, -1)) >= 0:
                yield number, reading.late, reading.pointer
            case StepRead():
                _check(draft, known, items, reading)


def _check(draft: DefinitionDraft, known: NamesInScope, items: frozenset[str], reading: StepRead) -> None:
    """Reports a reference to an unknown step, unless the name has another meaning."""
    name = reading.name
    if reading.root == "steps":
        if name and not draft.dialect_rules.unknown_steps_allowed:
            meant = draft.suggestion(name, known.steps)
            draft.error("unknown_reference", reading.pointer, f"'@steps.{name}' is not a step{did_you_mean(meant, '@steps.')}", meant)
    elif reading.root == "item":
        if "item" not in items and not draft.dialect_rules.items_in_cycles:
            called = f"; the items here are called {' and '.join(f'@{one}' for one in sorted(items))}" if items else ""
            draft.error("unknown_reference", reading.pointer, f"'@item' is only available inside of an each{called}")
    elif reading.root != "step":
        if not draft.dialect_rules.unknown_steps_allowed:
            _check_declared(draft, known, reading)
    elif name not in ROOTS and name not in items:
        meant = draft.suggestion(name, {*known.steps, *ROOTS, *items})
        draft.error("unknown_reference", reading.pointer, f"'@{name}' is not a step or a root{did_you_mean(meant, '@')}", meant)


def _check_declared(draft: DefinitionDraft, known: NamesInScope, reading: StepRead) -> None:
    """Warns of an input or a variable that is not declared, if any are."""
    declared = {"input": known.inputs, "vars": known.variables}.get(reading.root)
    if declared and reading.path and (name := str(reading.path[0])) not in declared:
        meant = draft.suggestion(name, declared)
        what = "an input" if reading.root == "input" else "a variable"
        text = f"'@{reading.root}.{name}' is not {what} of this definition{did_you_mean(meant, f'@{reading.root}.')}"
        draft.warning("unknown_reference", reading.pointer, text, meant)
