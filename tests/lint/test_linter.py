"""Lint as a whole: ignores, sources of every sort, order and places of findings, speed, and what it says of code that it did not see being written."""

import ast
import random
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from perdure.lint import LintFinding, lint
from tests.lint.snippets import HEAD, body, codes

ROOT = Path(__file__).parents[2]
CLOCK = "import time"

IGNORED = [
    "time.time()  # perdure: ignore[PD101]",
    "time.time()  # perdure: ignore[PD101]  # it is only shown",
    "time.time()  # noqa: X100  # perdure: ignore[PD101]",
    "time.sleep(time.time())  # perdure: ignore[PD101, PD102]",
    "time.sleep(time.time())  # perdure: ignore[PD101]  # perdure: ignore[PD102]",
    "time.clock_gettime(\n    1,\n)  # perdure: ignore[PD101]",
    "#perdure:ignore[PD101]\ntime.clock_gettime(  #perdure:ignore[PD101]\n1)",
]


@pytest.mark.parametrize("text", IGNORED[:-1])
def test_a_finding_is_ignored_on_its_lines_by_its_code(text: str) -> None:
    assert codes(body(text, imports=CLOCK)) == []


def test_an_ignore_on_a_line_of_its_own_is_for_that_line_alone() -> None:
    assert codes(body(IGNORED[-1], imports=CLOCK)) == ["PD001"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time.time()  # perdure: ignore[PD102]", ["PD101", "PD001"]),
        ("time.time()  # perdure: ignore[PD101, PD102]", ["PD001"]),
        ("time.time()  # perdure: ignore", ["PD101", "PD001"]),
        ("time.time()  # perdure: ignore[]", ["PD101", "PD001"]),
        ("time.time()  # noqa", ["PD101"]),
        ("'# perdure: ignore[PD101]'; time.time()", ["PD101"]),
        ("x = 1  # perdure: ignore[PD101]", ["PD001"]),
    ],
)
def test_an_ignore_of_nothing_is_a_finding_and_no_other_comment_is_an_ignore(text: str, expected: list[str]) -> None:
    assert codes(body(text, imports=CLOCK)) == expected


def test_an_unused_ignore_says_which_code_it_names() -> None:
    (one,) = lint("x = 1  # perdure: ignore[PD101]\n")
    assert (one.line, one.column, one.end_column) == (1, 8, 32)
    assert one.message == "nothing here is to be ignored as PD101; remove the comment, or name the code that is meant"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def f(:\n", 1),
        ("x = 1\nif x:\n", 2),
        ("x = 1\n  y = 2", 2),
        ("'''", 1),
        ("x = \0", 1),
        ("\ud800", 1),
        ("(" * 10_000, 1),
        ("-" * 100_000 + "1", 1),
        (b"\xff\xfe", 1),
        (b"# coding: nothing\n", 1),
        (b"x = 1\ny = '\xff'\n", 2),
        (b"# coding: ascii\nx = '\xc3\xa4'", 2),
    ],
    ids=range(12),
)
def test_what_is_no_python_is_a_finding_and_no_crash(source: str | bytes, line: int) -> None:
    (one,) = lint(source, "x.py")
    assert (one.code, one.path, one.severity) == ("PD000", "x.py", "error")
    assert one.line in (line, 1)
    assert one.message.startswith("the file can't be read: ") and one.message.endswith("; correct it, or leave it out")


@pytest.mark.parametrize("source", ["", b"", "\n", "# a comment", "\ufeff", b"\xef\xbb\xbfx = 1\n", "\x0c\n", "x = 1\r\ny = 2\r", "'\\d'", "1 is 1"])
def test_what_has_no_workflow_has_no_findings(source: str | bytes) -> None:
    assert lint(source) == []


def test_columns_count_characters() -> None:
    source = body("größe = 'ö☕𝒳'; time.time(); 'ä'", imports=CLOCK)
    (one,) = lint(source)
    line = source.split("\n")[one.line - 1]
    assert line[one.column - 1 : one.end_column - 1] == "time.time()"
    assert [(again.line, again.column) for again in lint(source.encode())] == [(one.line, one.column)]
    assert [(again.line, again.column) for again in lint("\ufeff" + source)] == [(one.line, one.column)]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_parser(ending: str) -> None:
    source = body("x = '\x0b\u2028'\ny = 'ä'; time.time()", imports=CLOCK)
    line = source.split("\n").index("    y = 'ä'; time.time()") + 1
    assert [(one.line, one.column) for one in lint(source.replace("\n", ending))] == [(line, 14)]


def test_an_encoding_that_is_declared_is_used() -> None:
    source = "# coding: latin-1\n" + body("x = 'ä'; time.time()", imports=CLOCK)
    assert codes(source) == ["PD101"]
    assert [one.column for one in lint(source.encode("latin-1"))] == [14]


def test_findings_come_in_the_order_of_their_places() -> None:
    found = lint(body("helper()\ntime.sleep(1); print(1)\ncharge(1)", imports="import time\ndef helper(): time.sleep(1)"))
    assert [one.code for one in found] == ["PD102", "PD102", "PD117", "PD303"]
    assert found == sorted(found, key=lambda one: (one.line, one.column))


def test_a_statement_with_a_body_is_a_finding_of_its_first_line() -> None:
    (one,) = lint(body("try:\n    await ctx.sleep(1)\nexcept:\n    pass"))
    assert (one.code, one.end_line) == ("PD501", one.line)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_no_example_has_a_finding(path: Path) -> None:
    assert lint(path.read_bytes(), str(path)) == []


def test_the_examples_have_workflow_code_to_look_into() -> None:
    sources = [path.read_text() for path in (ROOT / "examples").glob("*.py")]
    spoilt = [source.replace("(ctx: Context", "(ctx: Context, *, _at=__import__('time') and print(1)") for source in sources if "@workflow" in source]
    assert len(spoilt) >= 4
    assert all([one.code for one in lint(source)] for source in spoilt)


def huge(lines: int) -> str:
    """Workflows of many lines each, with something wrong in some."""
    part = """
    for name in names:
        await ctx.step(f"charge {name}", charge, name)
    if flag and len(names) > 3:
        found = [name.lower() for name in sorted(names) if name]
        ctx.emit({"found": found, "count": len(found)})
    else:
        await ctx.step(charge, names[0])
    time.time()
"""
    return f"import time\n{HEAD}@workflow\nasync def flow(ctx: Context, names: list[str], flag: bool) -> None:\n" + part * (lines // 9)


@pytest.mark.slow
def test_the_time_grows_as_the_lines_do() -> None:
    spent_s = []
    for lines in (1_000, 10_000):
        source = huge(lines)
        began_s = time.process_time()
        found = lint(source)
        spent_s.append(time.process_time() - began_s)
        assert {one.code for one in found} == {"PD101", "PD310"}
    assert spent_s[1] < 40 * spent_s[0], "ten times the lines would take a hundred times as long, did it look at every pair"


@pytest.mark.slow
def test_code_that_nests_as_deeply_as_it_may_is_read() -> None:
    assert codes(body("x = " + "+".join(["1"] * 700) + "\ntime.time()", imports=CLOCK)) == ["PD101"]
    assert codes(body("x = names" + ".copy()" * 300, imports=CLOCK)) == []


def test_what_the_syntax_of_later_pythons_allows_is_read_where_there_is_one() -> None:
    if sys.version_info >= (3, 12):
        assert codes("import time\nfrom perdure import workflow\ntype X = int\n@workflow\nasync def f[T](ctx, x: T) -> T: time.time()") == ["PD101"]


class Workflows(ast.NodeTransformer):
    """Makes a workflow of every function, and lambdas and calls those of verbs, so that all checks have something to look into."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if self.random.random() < 0.7:
            node.decorator_list.append(ast.Name(self.random.choice(["workflow", "step"]), ast.Load()))
        if node.args.args and self.random.random() < 0.5:
            node.args.args[0].annotation = ast.Name(self.random.choice(["Context", "SyncTurn"]), ast.Load())
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and self.random.random() < 0.5:
            node.func.attr = self.random.choice(["step", "attempt", "join", "map", "race", "keep", "loop", "sleep", "call"])
        return node


STDLIB = sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py"))
SAMPLE = random.Random(7).sample([path for path in STDLIB if "site-packages" not in path.parts and path.stat().st_size < 60_000], 200)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_module_of_the_standard_library_makes_it_fail(part: int) -> None:
    for path in SAMPLE[part::10]:
        assert all(isinstance(one, LintFinding) for one in lint(path.read_bytes(), str(path))), path


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_no_code_that_is_full_of_workflows_makes_it_fail(part: int) -> None:
    for path in SAMPLE[part::20]:
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue  # some are wrong on purpose
        source = "from perdure import *\n" + ast.unparse(ast.fix_missing_locations(Workflows(part).visit(tree)))
        assert all(one.line and one.message for one in lint(source, str(path))), path
