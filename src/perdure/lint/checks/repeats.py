"""Repeats: operations that are told apart by their number alone, names that are given twice, loops without an end."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from perdure.lint.checks import Found
from perdure.lint.code import Function, Verb, shown, text_of

COMPARED_MAX = 50
"""How many earlier places one place is compared with."""

LOOPS = ast.For | ast.AsyncFor | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def unnamed_repeats(function: Function) -> Iterator[Found]:
    """The same operation opened in two places of one scope, without a name in at least one of them."""
    places: dict[tuple[ast.AST, str, str], list[Verb]] = defaultdict(list)
    for verb in function.verbs:
        if (operation := _repeatable(verb, function)) is not None:
            places[function.home(verb), *operation].append(verb)
    for (_, name, written), verbs in places.items():
        for number, verb in enumerate(verbs):
            first = next((one for one in verbs[: min(number, COMPARED_MAX)] if not exclusive(one.call, verb.call, function)), None)
            if first is not None:
                what = f"{name} of `{written}`" if name == "step" else f"`{name}({written})`"
                yield Found("PD310", verb.call, f"this {what} and the one in line {first.call.lineno} are told apart by their order alone")


def _repeatable(verb: Verb, function: Function) -> tuple[str, str] | None:
    """By what the operation is named when it is given no name; None if it has one, or if that is not to be seen."""
    if any(one.arg in ("name", None) for one in verb.call.keywords) or any(isinstance(one, ast.Starred) for one in verb.call.args):
        return None
    match verb.name, verb.call.args:
        case "step" | "attempt", [ast.Call(func=ast.Attribute(value=target, attr="with_"), keywords=options), *_] if _is_function(target, function):
            return None if any(one.arg in ("name", None) for one in options) else ("step", shown(target))
        case "step" | "attempt", [target, *_] if _is_function(target, function):
            return "step", shown(target)
        case "sleep", [ast.Constant() as duration]:
            return "sleep", shown(duration)
        case "listen" | "listen_many", [*wanted] if wanted and all(isinstance(one, ast.Name | ast.Attribute | ast.Constant) for one in wanted):
            return "listen", ", ".join(map(shown, wanted))
        case _:
            return None


def _is_function(target: ast.expr, function: Function) -> bool:
    """Whether it is one for sure, and no name that is given first."""
    full_name = function.full(target)
    imported = full_name != "" and "(" not in full_name and "[" not in full_name
    return imported or function.code.is_step(target, function.scope) or function.code.names.definition(target, function.scope) is not None


def repeated_names(function: Function) -> Iterator[Found]:
    """An explicit name that one scope uses twice, at two places or by going round."""
    places: dict[tuple[ast.AST, str], list[Verb]] = defaultdict(list)
    for verb in function.verbs:
        if (name := _explicit_name(verb)) is None:
            continue
        earlier = places[function.home(verb), name]
        first = next((one for one in earlier[:COMPARED_MAX] if not exclusive(one.call, verb.call, function)), None)
        if first is not None:
            yield Found("PD309", verb.call, f"the name {name!r} is given here and in line {first.call.lineno}, to two operations of one scope")
        elif _goes_round(verb, function):
            yield Found("PD309", verb.call, f"the name {name!r} is given again in each round of this loop")
        earlier.append(verb)


def _explicit_name(verb: Verb) -> str | None:
    match verb.target:
        case ast.Call(func=ast.Attribute(attr="with_"), keywords=options) if verb.name in ("step", "attempt"):
            return next((text_of(one.value) for one in options if one.arg == "name"), None)
        case _:
            return verb.explicit_name


def _goes_round(verb: Verb, function: Function) -> bool:
    """Whether a loop comes back to the verb in the same scope."""
    home = function.home(verb)
    if not isinstance(home, ast.For | ast.AsyncFor) and home is not function.node:
        return False
    for outer, part in function.around(verb.call):
        if outer is home or part == "iter" or (not isinstance(outer, ast.Try) and _leaves(outer, part)):
            return False
        if isinstance(outer, LOOPS) and part != "orelse":
            return True
    return False


def exclusive(first: ast.AST, second: ast.AST, function: Function) -> bool:
    """Whether at most one of two nodes, the first of which stands earlier, is reached when the code around them is gone through once."""
    around_second = {second: "", **dict(function.around(second))}
    inner: ast.AST = first
    for outer, part in function.around(first):
        if outer in around_second:
            other = around_second[outer]
            apart = isinstance(outer, ast.If | ast.IfExp) and {part, other} == {"body", "orelse"}
            return apart or (part == other and part in ("cases", "handlers"))
        if isinstance(outer, ast.Return | ast.Raise) or _leaves(outer, part, only=(ast.Return, ast.Raise)):
            return not any(isinstance(one, ast.Try) for one, _ in function.around(inner))
        inner = outer
    return isinstance(inner, ast.Return | ast.Raise)


def _leaves(node: ast.AST, part: str, only: tuple[type[ast.stmt], ...] = (ast.Return, ast.Raise, ast.Break)) -> bool:
    """Whether this part of a node ends by leaving what is around it."""
    statements = getattr(node, part, None) if part in ("body", "orelse") and isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case) else None
    return isinstance(statements, list) and bool(statements) and isinstance(statements[-1], only)


def unbounded_loops(function: Function) -> Iterator[Found]:
    """Loops that go on by themselves and open an operation in each round."""
    for loop in function.all(ast.While):
        if isinstance(loop.test, ast.Constant) and loop.test.value:
            yield from _unbounded(loop.test, loop.body, f"`while {shown(loop.test)}`", function)
    for each in function.loops:
        if function.full(each.iter) in ("itertools.count()", "itertools.cycle()", "itertools.repeat()"):
            yield from _unbounded(each.iter, each.body, f"`for {shown(each.target)} in {shown(each.iter)}`", function)


def _unbounded(place: ast.expr, body: list[ast.stmt], what: str, function: Function) -> Iterator[Found]:
    verb = next((verb for verb in function.verbs_within(body) if verb.name not in ("now", "random", "loop")), None)
    if verb is not None:
        yield Found("PD311", place, f"{what} adds to the history in every round (`{verb.name}`), without a limit")
