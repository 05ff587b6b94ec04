"""The tree is tidy: its layers, purity, sizes, docstrings and names; and each of these checks can fail."""

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tidy

ROOT = Path(__file__).parent.parent
PYTHON = ("src", "tests", "bench", "examples", "tools")
TEXT = (*PYTHON, "docs", "console", ".ci")
TEXT_SUFFIXES = {"", ".css", ".html", ".lua", ".md", ".py", ".sh", ".sql", ".toml", ".ts", ".tsx", ".yaml", ".yml"}
NOT_OURS = {"__pycache__", "node_modules", "dist"}
BUILT = ROOT / "src/perdure/api/console"
"""What the console is built into, which is no source."""
TEMPLATES = ROOT / "src/perdure/cli/templates"
"""Projects that `perdure init` writes: no code of the package, and checked by tests/cli/test_init_command.py."""
AT_THE_TOP = {
    *(".ci", ".editorconfig", ".gitignore", "bench", "console", "deploy", "docs", "examples", "src", "tests", "tools"),
    *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md", "UPGRADING.md", "pyproject.toml", "uv.lock"),
}
"""The files and directories at the root of the repository: a run that leaves something there must not be committed with it."""


@pytest.mark.slow
def test_the_package_keeps_the_rules() -> None:
    paths = package_files()
    found = [complaint for rule in tidy.SRC_RULES for complaint in complaints(rule, paths)]
    assert not found, lines(found)


@pytest.mark.slow
def test_all_python_keeps_the_rules() -> None:
    paths = files(*PYTHON, suffixes={".py"})
    found = [complaint for rule in tidy.PYTHON_RULES for complaint in complaints(rule, paths)]
    assert not found, lines(found)


@pytest.mark.slow
@pytest.mark.parametrize("rule", tidy.TEXT_RULES, ids=lambda rule: rule.__name__)
def test_all_text_keeps_the_rule(rule: tidy.Rule) -> None:
    at_the_top = (path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in TEXT_SUFFIXES)
    found = complaints(rule, [*at_the_top, *files(*TEXT, suffixes=TEXT_SUFFIXES)])
    assert not found, lines(found)


def test_the_root_has_only_what_belongs_there() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    at_the_top = {path.partition("/")[0] for path in listed if path}
    assert "src" in at_the_top and at_the_top <= AT_THE_TOP, f"not in the list: {', '.join(sorted(at_the_top - AT_THE_TOP))}"


@pytest.mark.slow
def test_the_tests_mirror_the_tree() -> None:
    packages = {path.parent.relative_to(ROOT / "src/perdure").as_posix() for path in package_files()}
    found = [complaint for path in files("tests", suffixes={".py"}) for complaint in tidy.mirrored(name(path), packages)]
    assert not found, lines(found)


def test_no_program_hides_a_standard_module() -> None:
    """Python looks into the directory of a program first: beside a `http.py`, no library can import `http.client`."""
    programs = files("bench", "examples", "tools", suffixes={".py"})
    assert programs
    assert not [str(path) for path in programs if path.stem in sys.stdlib_module_names]


@pytest.mark.slow
def test_every_exception_from_the_sizes_is_still_needed() -> None:
    excepted = {ROOT / key.partition("::")[0] for key in tidy.SIZE_EXCEPTIONS}
    oversized = {key for path in excepted for key, _ in tidy.oversized(name(path), path.read_text())}
    assert set(tidy.SIZE_EXCEPTIONS) - oversized == set()


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    found = [", ".join(sorted(cycle)) for cycle in tidy.cycles(package())]
    assert not found, lines(found)


@pytest.mark.slow
def test_a_name_of_a_module_or_class_means_one_thing() -> None:
    found = [*tidy.shared_basenames(package()), *tidy.shared_class_names(package())]
    assert not found, lines(found)


@pytest.mark.parametrize(
    "source",
    [
        "from perdure.core import two",
        "from . import two",
        "from .two import f",
        "import perdure.core.two",
        "def f():\n    from perdure.core.two import f",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from perdure.core.two import F",
    ],
)
def test_the_check_catches_a_circle(source: str) -> None:
    one, two, three = (f"src/perdure/core/{name}.py" for name in ("one", "two", "three"))
    sources = {one: source, two: "from perdure.core import three", three: "import perdure.core.one"}
    assert tidy.cycles(sources) == [frozenset({"perdure.core.one", "perdure.core.two", "perdure.core.three"})]
    assert tidy.cycles({one: source, two: "from perdure.core import three", three: "import msgspec"}) == []


def test_the_check_catches_a_name_that_means_two_things() -> None:
    assert list(tidy.shared_basenames(["src/perdure/core/one.py", "src/perdure/cli/one.py"])) != []
    assert list(tidy.shared_basenames(["src/perdure/stores/sqlite/one.py", "src/perdure/stores/postgres/one.py"])) == []
    assert list(tidy.shared_class_names({"src/perdure/core/one.py": "class A: ...", "src/perdure/cli/two.py": "class A: ..."})) != []
    assert list(tidy.shared_class_names({"src/perdure/core/one.py": "class _A: ...", "src/perdure/cli/two.py": "class _A: ..."})) == []


def test_every_method_that_users_meet_has_a_docstring() -> None:
    perdure = importlib.import_module("perdure")
    public = [getattr(perdure, exported) for exported in getattr(perdure, "__all__", ())]
    methods = [method for kind in public if inspect.isclass(kind) for method in vars(kind).values() if inspect.isfunction(method)]
    undocumented = [method.__qualname__ for method in methods if not method.__name__.startswith("_") and not method.__doc__]
    assert not undocumented, lines(undocumented)


PLANTED = [
    # layers
    (tidy.layers, "core/decide.py", "from perdure.stores import base"),
    (tidy.layers, "core/decide.py", "from ..code import context"),
    (tidy.layers, "core/decide.py", "from .. import expr"),
    (tidy.layers, "core/decide.py", "from perdure import Context"),
    (tidy.layers, "core/decide.py", "def f():\n    import perdure.runtime.engine"),
    (tidy.layers, "core/decide.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from perdure.workflow_function import Client"),
    (tidy.layers, "stores/sqlite/store.py", "from perdure.definitions import graph"),
    (tidy.layers, "stores/sqlite/store.py", "from perdure.definitions.expr import cel"),
    (tidy.layers, "code/replay.py", "from perdure.stores.protocol import Store"),
    (tidy.layers, "code/replay.py", "from perdure.runtime.engine import Engine"),
    (tidy.layers, "runtime/engine.py", "from perdure.definitions.kinds import http"),
    (tidy.layers, "runtime/engine.py", "import importlib\nimportlib.import_module('perdure.service.triggers')"),
    (tidy.layers, "service/triggers.py", "from perdure import api"),
    (tidy.layers, "service/triggers.py", "import perdure"),
    (tidy.layers, "cli/main.py", "from perdure.testing import world"),
    (tidy.layers, "sdk.py", "from perdure.testing import world"),
    (tidy.layers, "__init__.py", "from .testing import world"),
    (tidy.layers, "lint/lint.py", "from perdure.core import errors"),
    (tidy.layers, "runtime/engine.py", "from perdure.lint import lint"),
    (tidy.layers, "gadgets/one.py", ""),
    # purity
    (tidy.purity, "lint/lint.py", "from pathlib import Path"),
    (tidy.purity, "core/decide.py", "import tokenize"),
    (tidy.purity, "core/decide.py", "import time"),
    (tidy.purity, "core/decide.py", "import os.path"),
    (tidy.purity, "core/decide.py", "import asyncio"),
    (tidy.purity, "core/decide.py", "def f():\n    from threading import Lock"),
    (tidy.purity, "expr/cel.py", "import socket, subprocess"),
    (tidy.purity, "expr/cel.py", "from urllib import request"),
    (tidy.purity, "expr/cel.py", "import attrs"),
    (tidy.purity, "definitions/graph/walk.py", "from sqlite3 import connect"),
    (tidy.purity, "definitions/graph/walk.py", "import asyncio"),
    (tidy.purity, "code/loop.py", "import asyncio\nasync def f():\n    await asyncio.sleep(1)"),
    (tidy.purity, "code/loop.py", "from asyncio import to_thread"),
    (tidy.purity, "code/loop.py", "import sys as system\nsystem.stdout.write('')"),
    (tidy.purity, "core/ops.py", "import random\nrandom.random()"),
    (tidy.purity, "core/ops.py", "from random import choice"),
    (tidy.purity, "core/ops.py", "from random import Random\nRandom()"),
    (tidy.purity, "core/ops.py", "from datetime import datetime\ndatetime.now()"),
    (tidy.purity, "core/ops.py", "import datetime as d\nd.date.today()"),
    (tidy.purity, "core/ops.py", "import uuid\nuuid.uuid4()"),
    (tidy.purity, "core/ops.py", "def f(path):\n    return open(path).read()"),
    # sizes
    (tidy.sizes, "core/decide.py", "def f():\n" + "    x = 1\n" * 50),
    (tidy.sizes, "core/decide.py", "class A:\n    async def f(self):\n" + "        x = 1\n" * 50),
    (tidy.sizes, "core/decide.py", "def f(a, b, c, d, e, f, g): ..."),
    (tidy.sizes, "core/decide.py", "class A:\n    def f(self, a, b, /, c, d, e, f, g): ..."),
    # names
    (tidy.gerunds, "core/telling.py", ""),
    (tidy.gerunds, "core/graph_telling.py", ""),
    (tidy.gerunds, "core/telling/one.py", ""),
    # names of kinds and dialects
    (tidy.named_kinds, "definitions/graph/walk.py", "if node.kind == 'llm': ..."),
    (tidy.named_kinds, "definitions/graph/walk.py", "has_own = node.kind in ('pipeline', 'task')"),
    (tidy.named_kinds, "definitions/graph/walk.py", "KIND = 'llm'\nkinds.get(KIND)"),
    (tidy.named_kinds, "definitions/format/compiler.py", "match node.kind:\n    case 'agent' | 'tool': ..."),
    (tidy.named_kinds, "service/triggers.py", "found = kinds['bash']"),
    (tidy.named_kinds, "cli/main.py", "if document.get('bash'): ..."),
    (tidy.named_kinds, "cli/main.py", "is_foreign = document.dialect != 'ref_dag'"),
    # docstrings
    (tidy.docstrings, "core/decide.py", "x = 1"),
    (tidy.docstrings, "core/decide.py", '"""A module."""\ndef f(): ...'),
    (tidy.docstrings, "core/decide.py", '"""A module."""\nclass A: ...'),
    (tidy.docstrings, "core/decide.py", '"""A module."""\nif True:\n    async def f(): ...'),
    (tidy.docstrings, "core/decide.py", '"""A module."""\nclass Store(Protocol):\n    """A store."""\n    def read(self): ...'),
    # swallowed errors
    (tidy.swallowed_errors, "core/decide.py", "try:\n    f()\nexcept Exception:\n    pass"),
    (tidy.swallowed_errors, "core/decide.py", "try:\n    f()\nexcept (ValueError, BaseException) as e:\n    ..."),
    (tidy.swallowed_errors, "core/decide.py", "for x in y:\n    try:\n        f()\n    except:\n        continue"),
    (tidy.swallowed_errors, "core/decide.py", "with contextlib.suppress(Exception):\n    f()"),
    # ignores
    (tidy.bare_ignores, "core/decide.py", "x = 1  # type" + ": ignore"),
    (tidy.bare_ignores, "core/decide.py", "x = 1  # type" + ": ignore[assignment]"),
    (tidy.bare_ignores, "core/decide.py", "x = 1  # pyright" + ": ignore"),
    (tidy.bare_ignores, "core/decide.py", "x = 1  # no" + "qa"),
    (tidy.bare_ignores, "core/decide.py", "x = 1  # no" + "qa: S101"),
    (tidy.bare_ignores, "core/decide.py", "x = 1  # no" + "qa  # without its rule"),
    # unfinished work
    (tidy.unfinished, "core/decide.py", "# TO" + "DO: the rest"),
    (tidy.unfinished, "core/decide.py", "x = 1  # FIX" + "ME"),
    (tidy.unfinished, "core/decide.py", '"""XX' + 'X."""'),
]


@pytest.mark.parametrize(("rule", "path", "source"), PLANTED, ids=lambda part: getattr(part, "__name__", None))
def test_the_check_catches_what_is_planted(rule: tidy.Rule, path: str, source: str) -> None:
    assert list(rule(f"src/perdure/{path}", source)) != []


def test_the_check_catches_tests_of_nothing() -> None:
    assert list(tidy.mirrored("tests/gadgets/test_one.py", {".", "core"})) != []
    assert list(tidy.mirrored("tests/core/deep/test_one.py", {".", "core"})) != []


ALLOWED = [
    (tidy.layers, "core/decide.py", "from . import paths\nfrom .events import Opened\nimport msgspec"),
    (tidy.layers, "code/replay.py", "from perdure.core import decide\nfrom perdure.definitions.expr import cel"),
    (tidy.layers, "runtime/engine.py", "from perdure.stores import base"),
    (tidy.layers, "cli/main.py", "import perdure\nfrom perdure.api import app\nfrom perdure.service import triggers"),
    (tidy.layers, "testing/world.py", "import perdure\nfrom perdure.workflow_function import workflow"),
    (tidy.purity, "core/ops.py", "from random import Random\ndef f(random: Random, seed: int):\n    return random.random() + Random(seed).random()"),
    (tidy.purity, "code/loop.py", "import asyncio\nfuture = asyncio.Future"),
    (tidy.purity, "expr/template.py", "from urllib.parse import quote\nimport collections.abc"),
    (tidy.purity, "lint/source.py", "import ast, builtins, tokenize, warnings"),
    (tidy.purity, "runtime/engine.py", "import time\nprint(time.time())"),
    (tidy.sizes, "core/decide.py", "def f(self, a, b, c, d, e, f, *rest, g, h, i): ..."),
    (tidy.gerunds, "testing/graph_drawing.py", ""),
    (tidy.docstrings, "core/decide.py", '"""A module."""\ndef _f(): ...\nclass _A:\n    def f(self): ...'),
    (tidy.swallowed_errors, "core/decide.py", "try:\n    f()\nexcept ValueError:\n    pass\nexcept Exception as error:\n    g(error)"),
    (tidy.bare_ignores, "core/decide.py", "x = 1  # type" + ": ignore[assignment]  # mypy knows no better"),
    (tidy.bare_ignores, "core/decide.py", "x = 1  # no" + "qa: S101, E501  # the reason\ny = '# no" + "qa'"),
    (tidy.unfinished, "core/decide.py", "mastodon = 'todo'"),
    (tidy.named_kinds, "definitions/graph/walk.py", "meta = {'llm': model}\nDialect = Literal['ref_dag']"),
    (tidy.named_kinds, "definitions/format/model.py", "KIND = 'llm'"),
    (tidy.named_kinds, "dialects/ref_dag/document_writer.py", "if 'llm' in step: ..."),
]


@pytest.mark.parametrize(("rule", "path", "source"), ALLOWED, ids=lambda part: getattr(part, "__name__", None))
def test_the_check_lets_pass_what_is_right(rule: tidy.Rule, path: str, source: str) -> None:
    assert list(rule(f"src/perdure/{path}", source)) == []


def complaints(rule: tidy.Rule, paths: list[Path]) -> list[str]:
    """What `rule` has to say about the files, as lines that editors can follow."""
    return [complaint for path in paths for complaint in rule(name(path), path.read_text(encoding="utf-8"))]


def package() -> dict[str, str]:
    """The source of each module of the package, by path."""
    return {name(path): path.read_text(encoding="utf-8") for path in package_files()}


def lines(found: list[str]) -> str:
    """All that was found, one to a line; pytest would show the first only."""
    return "\n" + "\n".join(found)


def files(*directories: str, suffixes: set[str]) -> list[Path]:
    """Our files in these directories, where they exist."""

    def walk(directory: Path) -> Iterator[Path]:
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if path.is_dir() and path.name not in NOT_OURS and path != BUILT and not path.name.startswith("."):
                yield from walk(path)
            elif path.is_file() and path.suffix in suffixes:
                yield path

    return [path for directory in directories for path in walk(ROOT / directory)]


def package_files() -> list[Path]:
    """The Python files of the package, without those of templates."""
    return [path for path in files("src", suffixes={".py"}) if TEMPLATES not in path.parents]


def name(path: Path) -> str:
    """The path from the root, with slashes on every system."""
    return path.relative_to(ROOT).as_posix()
