"""Changes a sample of the source in small, general ways, and counts which changes the tests notice.

    python -m tools.mutation_sample [--seed N] [--count N] [--module core.decision]

A change flips a comparison, drops a condition, shifts a number by one, or removes a statement. Which are drawn depends on the seed alone. The tests of
a module are those that mirror its path, then those of its package, then the simulator; a change that passes all of them has survived.
"""

import argparse
import ast
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple

from tools.package_copies import PYTEST, ROOT, Run, run_on, run_on_copy, source_of

USABLE_S = 100.0
"""A command that takes longer than this on the unchanged source is left out."""

LIMIT_S = 3 * USABLE_S + 20
"""The longest that a command can take on a mutant."""

PACKAGES = ("core", "runtime", "stores.sqlite", "code", "definitions.graph")
MODULES = ("stores.memory", "stores.memory_queues", "stores.fairness")
DRAWINGS = ("graph_drawing", "graph_picture", "svg_drawing")  # what a picture looks like is compared with files, not proven
SIMULATOR = ("-m", "tests.proof.simulator", "--seed", "0", "--worlds")
FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


class Mutant(NamedTuple):
    """A change of one line: in which module, where, what became of it, and the module's source with it."""

    module: str
    line: int
    what: str
    source: str


class Verdict(NamedTuple):
    """What became of a mutant: the command that noticed it, or none if it survived; the seconds that took, and the commands that were of no use."""

    mutant: Mutant
    noticed_by: str | None
    seconds: float
    left_out: tuple[str, ...] = ()


def modules() -> list[str]:
    """The modules that are sampled."""
    found = [f"{package}.{path.stem}" for package in PACKAGES for path in sorted(source_of(f"{package}.x").parent.glob("*.py"))]
    return [*MODULES, *(module for module in found if not module.endswith("__init__") and not module.rpartition(".")[2].startswith(DRAWINGS))]


def sample(seed: int, count: int, among: list[str]) -> list[Mutant]:
    """So many mutants, drawn evenly from all places where the modules can be changed."""
    places = [(module, number) for module in among for number in range(len(list(_changes(ast.parse(source_of(module).read_text())))))]
    chosen = random.Random(seed).sample(places, min(count, len(places)))
    return [_mutant(module, number) for module, number in chosen]


def _mutant(module: str, number: int) -> Mutant:
    tree = ast.parse(source_of(module).read_text())
    line, what, change = list(_changes(tree))[number]
    change()
    return Mutant(module, line, what, ast.unparse(ast.fix_missing_locations(tree)))


def _changes(tree: ast.Module) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """Each change that can be made within functions: its line, what it is, and what makes it."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.name != "__repr__":
            for statement in function.body:
                for node in _own_nodes(statement):
                    yield from ((getattr(node, "lineno", function.lineno), *found) for found in _changes_of(node))
            if function.name != "__init__":  # what it sets is needed, or its removal could not be noticed either
                yield from _removals(function, "body")


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, without functions of their own, messages of errors and notes in a log, which nothing depends on."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Raise | ast.Assert) or _is_logging(node):
        return
    yield node
    for inner in ast.iter_child_nodes(node):
        yield from _own_nodes(inner)


def _is_logging(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("logger.")


def _changes_of(node: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    before = ast.unparse(node) if isinstance(node, ast.expr) else ""
    match node:
        case ast.Compare(ops=[operator], left=left, comparators=[right]):
            flipped = FLIPPED[type(operator)]()
            yield f"`{before}` became `{ast.unparse(ast.Compare(left, [flipped], [right]))}`", partial(_set, node, "ops", [flipped])
        case ast.BoolOp(values=values):
            for number, value in enumerate(values):
                rest = [*values[:number], *values[number + 1 :]]
                yield f"`{before}` lost `{ast.unparse(value)}`", partial(_set, node, "values", rest)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            yield f"`{value}` became `{value + 1}`", partial(_set, node, "value", value + 1)
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While() | ast.With() | ast.AsyncWith() | ast.Try() | ast.ExceptHandler() | ast.match_case():
            for field in ("body", "orelse", "finalbody"):
                yield from ((what, change) for _, what, change in _removals(node, field))


def _removals(node: ast.AST, field: str) -> Iterator[tuple[int, str, Callable[[], None]]]:
    """The removal of each statement of a body that does something; without an assignment the next line would fail anyway."""
    body: list[ast.stmt] = getattr(node, field, [])
    for number, statement in enumerate(body):
        acts = isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant) and not _is_logging(statement)
        stores = isinstance(statement, ast.Assign) and not any(isinstance(target, ast.Name | ast.Tuple) for target in statement.targets)
        if acts or stores or isinstance(statement, ast.AugAssign | ast.Raise | ast.Continue | ast.Delete):
            rest = [*body[:number], ast.Pass(), *body[number + 1 :]]
            first = ast.unparse(statement).splitlines()[0]
            yield statement.lineno, f"`{first}` was removed", partial(_set, node, field, rest)


def _set(node: ast.AST, field: str, value: object) -> None:
    setattr(node, field, value)


def commands(module: str) -> list[tuple[str, ...]]:
    """What is run on a mutant of a module, the nearest first."""
    package, _, name = module.rpartition(".")
    folder = package.replace(".", "/")
    mirrored = [path for path in (f"tests/{folder}/test_{name}.py", f"tests/stores/test_{name}.py") if (ROOT / path).exists()]
    near = [(*PYTEST, path) for path in dict.fromkeys(mirrored)]
    match package:
        case "stores":
            return [*near, (*PYTEST, "tests/stores/test_memory_store.py"), (*SIMULATOR, "200")]
        case "stores.sqlite":
            return [*near, (*PYTEST, "tests/stores/sqlite"), (*SIMULATOR, "40", "--store", "sqlite")]
        case "definitions.graph":
            return [*near, (*SIMULATOR, "40", "--definitions"), (*PYTEST, "tests/definitions/graph")]
        case "core":
            return [*near, (*SIMULATOR, "100"), (*PYTEST, "tests/core"), (*PYTEST, "tests/code")]
    return [*near, (*SIMULATOR, "100"), (*PYTEST, f"tests/{folder}")]


def judge(mutant: Mutant) -> Verdict:
    """Run the tests of a mutant's module until one notices it. What takes three times as long as on the unchanged source has been noticed."""
    begun_s = time.monotonic()
    left_out: list[str] = []
    for command in commands(mutant.module):
        unchanged = _unchanged(command)
        if unchanged.code != 0:
            left_out.append(command[-1])
        elif run_on_copy(mutant.module, mutant.source, command, 3 * unchanged.seconds + 20).code != 0:
            return Verdict(mutant, command[-1], time.monotonic() - begun_s)
    return Verdict(mutant, None, time.monotonic() - begun_s, tuple(left_out))


@cache
def _unchanged(command: tuple[str, ...]) -> Run:
    """How a command ends on the source as it is."""
    return run_on(ROOT / "src", command, USABLE_S)


def judge_all(mutants: list[Mutant], jobs: int, until_s: float) -> list[Verdict]:
    """Judge mutants side by side, in their order, and begin none after a moment of the monotonic clock."""

    def judged(mutant: Mutant) -> Verdict | None:
        return judge(mutant) if time.monotonic() < until_s else None

    with ThreadPoolExecutor(jobs) as threads:
        return [verdict for verdict in threads.map(judged, mutants) if verdict is not None]


def report(verdicts: list[Verdict], seed: int) -> list[str]:
    """The share that was noticed, by package, and each that was not, as lines of Markdown."""
    survived = [verdict for verdict in verdicts if verdict.noticed_by is None]
    noticed = len(verdicts) - len(survived)
    lines = [f"{noticed} of {len(verdicts)} small changes of the source were noticed by its tests ({noticed / max(len(verdicts), 1):.0%}); seed {seed}.", ""]
    lines += ["| package | changes | noticed |", "|---|---|---|"]
    for package in sorted({verdict.mutant.module.rpartition(".")[0] for verdict in verdicts}):
        of_package = [verdict for verdict in verdicts if verdict.mutant.module.rpartition(".")[0] == package]
        lines.append(f"| `{package}` | {len(of_package)} | {sum(verdict.noticed_by is not None for verdict in of_package)} |")
    left_out = sorted({command for verdict in survived for command in verdict.left_out})
    if left_out:
        lines += ["", f"Left out, since they fail on the source as it is or take longer than {USABLE_S:g} s: {', '.join(left_out)}."]
    if survived:
        lines += ["", "Not noticed (some of these change nothing that anybody could notice):", ""]
        lines += [f"- `{one.mutant.module}`, line {one.mutant.line}: {one.mutant.what}" for one in survived]
    return lines


def main() -> int:
    """Judge a sample and print the report."""
    parser = argparse.ArgumentParser(description="Change a sample of the source, and count what the tests notice.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--module", help="only this one, such as core.decision")
    given = parser.parse_args()
    among = [given.module] if given.module else modules()
    verdicts = judge_all(sample(given.seed, given.count, among), given.jobs, time.monotonic() + 60 * given.minutes)
    sys.stdout.write("\n".join(report(verdicts, given.seed)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
