"""The rules of the tree, each a function from a file's path and source to the complaints about it.

All is read from the syntax and nothing is imported, so an import counts wherever it stands: in a function and under
`TYPE_CHECKING` too. `test_tidy.py` holds the tree to these rules, and proves of each that it can fail.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath

Rule = Callable[[str, str], Iterator[str]]
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# Layers: what each may import besides itself. Arrows point down only.
MAY_IMPORT = {
    "core": set[str](),
    "lint": set[str](),
    "expr": {"core"},
    "stores": {"core"},
    "supervision": set[str](),
    "code": {"core", "expr"},
    "definitions": {"core", "expr", "code"},
    "dialects": {"core", "expr", "code", "definitions"},
    "kinds": {"core", "expr", "code", "definitions", "dialects", "stores", "supervision"},
    "runtime": {"core", "expr", "code", "definitions", "stores"},
    "service": {"core", "expr", "code", "definitions", "dialects", "stores", "runtime", "kinds"},
    "recording": {"core", "expr", "code", "definitions", "dialects", "stores", "runtime", "service"},
    "operations": {"core", "code", "definitions", "stores", "service", "recording"},
    "surface": {"core", "expr", "lint", "code", "definitions", "dialects", "stores", "runtime", "kinds", "service", "recording", "operations", "supervision"},
    "testing": {"core", "expr", "code", "definitions", "dialects", "stores", "runtime", "kinds", "service", "recording", "operations", "surface"},
}
# Two parts of `perdure.definitions` are layers of their own, and the modules directly under `perdure` are surfaces as well.
PARTS_OF_DEFINITIONS = {"expr", "kinds"}
SURFACES = {
    *(
        "api",
        "cli",
        "console",
        "display",
        "django",
        "fake_llm",
        "langgraph",
        "mcp",
        "mcp_server",
        "observe",
        "openai_agents",
        "pydantic_ai",
        "recording_proxy",
        "remote",
        "sqlalchemy",
        "tasks",
    )
}

# Purity: what the pure layers may import besides each other, and which parts of it they may not touch.
PURE_LAYERS = {"core", "expr", "lint", "code", "definitions", "dialects"}
PURE_MODULES = set(
    """
    __future__ abc ast base64 binascii bisect collections contextlib contextvars copy dataclasses datetime decimal difflib
    enum fractions functools graphlib hashlib heapq hmac inspect ipaddress itertools json keyword math msgspec numbers
    operator random re reprlib statistics string struct textwrap types typing unicodedata urllib.parse uuid weakref zlib
    zoneinfo
    """.split()  # noqa: SIM905  # a paragraph reads better than forty lines
)
# The deterministic event loop is made of asyncio's parts; a failure's traceback is text by the time it is remembered;
# a greenlet only moves control between functions of one thread.
PURE_IN_CODE = {"asyncio", "greenlet", "sys", "traceback"}
# Text in YAML is read, and documents are patched, by libraries that only turn data into data.
PURE_IN_FORMAT = {"cronsim", "jsonpatch", "jsonpointer", "ruamel"}
# Libraries that give values from values, and are imported when the first expression of their kind is compiled.
# `warnings` only silences those that reading Python's source gives.
PURE_IN_EXPRESSIONS = {"cel_expr_python", "jsonpath", "jsonschema_rs", "re2", "warnings"}
# Lint reads source text as Python does: its tokens, the names that it has built in, and without the warnings that parsing gives.
PURE_IN_LINT = {"builtins", "tokenize", "warnings"}
IMPURE_PARTS = {
    "asyncio": re.compile(r"sleep|run|to_thread|open_\w+|start_\w+|create_subprocess_\w+|subprocess|new_event_loop|Runner"),
    "random": re.compile(r"(?!Random$)\w+"),
    "sys": re.compile(r"std\w+|argv|exit|path|modules|settrace|setprofile"),
    "uuid": re.compile(r"uuid1|uuid4|uuid6|uuid7|getnode"),
}
IMPURE_CALLS = {"breakpoint", "input", "open", "print", "date.today", "datetime.now", "datetime.today", "datetime.utcnow"}

# Sizes, and the functions that may exceed them ("path::function"), each with the reason.
FUNCTION_LINES_MAX = 50
PARAMETERS_MAX = 6
SIZE_EXCEPTIONS: dict[str, str] = {}

# Parts that know of kinds and dialects only what these declare; the modules that declare it for Perdure's own verbs and dialects.
NAMES_OF_KINDS = {"bash", "http", "llm", "ts", "pipeline", "agent", "agent_message", "ref_dag", "nested_steps", "port_graph", "token_graph"}
BLIND_TO_KINDS = ("perdure.definitions.graph.", "perdure.definitions.format.", "perdure.service.", "perdure.cli.")
KINDS_DECLARED_BY = {f"perdure.definitions.format.{name}" for name in ("model", "verb_shapes", "dialect_rules")}

# Names of modules that end in -ing and are nouns all the same.
NOUNS_IN_ING = {"drawing", "recording", "testing"}
# Packages that hold one thing each in their own way, so that their modules have the same names.
PARALLEL_PACKAGES = [
    {"stores.sqlite", "stores.postgres"},
    {"dialects.ref_dag", "dialects.nested_steps", "dialects.port_graph", "dialects.token_graph"},
]

UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
ANY_ERROR = re.compile(r"\bexcept\s*:|\b(?:Base)?Exception\b")
IGNORE = re.compile(r"#\s*(type:\s*ignore|pyright:\s*ignore|noqa|mypy:\s*ignore)", re.IGNORECASE)
IGNORE_WITH_REASON = re.compile(r"#\s*(?:(?:type|pyright):\s*ignore\[[\w\-, ]+\]|noqa:\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*)\s*#\s*\w+", re.IGNORECASE)

# Directories of tests that have no counterpart in the package.
TESTS_OF_THEIR_OWN = {
    f"tests/{name}"
    for name in (
        *("cli/definitions", "console", "corpus", "definitions/graph/semantics", "docs", "examples", "proof", "recording"),
        *("runtime/kill", "seeds", "typing"),
    )
}


def layers(path: str, source: str) -> Iterator[str]:
    """Arrows point down only."""
    layer = _layer(_module(path))
    if layer not in MAY_IMPORT:
        yield f"{path}:1: `{layer}` is in no layer; give it a place in MAY_IMPORT or SURFACES"
        return
    for line, imported in _imports(path, source):
        if imported.split(".")[0] == "perdure" and (target := _layer(imported)) != layer and target not in MAY_IMPORT[layer]:
            yield f"{path}:{line}: {layer} may not import {imported} ({target})"


def purity(path: str, source: str) -> Iterator[str]:
    """The rules know no clock, files, threads, network, nor any randomness but what they are given."""
    if _layer(_module(path)) not in PURE_LAYERS:
        return
    allowed = PURE_MODULES | (PURE_IN_CODE if _layer(_module(path)) == "code" else set())
    allowed |= PURE_IN_EXPRESSIONS if _layer(_module(path)) == "expr" else set()
    allowed |= PURE_IN_FORMAT if _layer(_module(path)) in ("definitions", "dialects") else set()
    allowed |= PURE_IN_LINT if _layer(_module(path)) == "lint" else set()
    for line, imported in _imports(path, source):
        root = imported.split(".")[0]
        if root not in allowed | {"perdure"} and not any(f"{imported}.".startswith(f"{name}.") for name in allowed):
            yield f"{path}:{line}: {imported} is not pure; let what you need of it be an argument"
    yield from (f"{path}:{line}: {name} is not pure; let its value be an argument" for line, name in _impure_uses(source))


def sizes(path: str, source: str) -> Iterator[str]:
    """Functions and lists of parameters stay small, but for the exceptions listed."""
    yield from (complaint for key, complaint in oversized(path, source) if key not in SIZE_EXCEPTIONS)


def oversized(path: str, source: str) -> Iterator[tuple[str, str]]:
    """What is too large, exceptions included: its key in SIZE_EXCEPTIONS, and the complaint."""
    for name, node in definitions_of(parsed(source)):
        if isinstance(node, ast.ClassDef):
            continue
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX:
            yield f"{path}::{name}", f"{path}:{node.lineno}: {name} has {lines} lines, {FUNCTION_LINES_MAX} at most"
        positional = [argument.arg for argument in node.args.posonlyargs + node.args.args]
        if (count := len(positional) - (positional[:1] in (["self"], ["cls"]))) > PARAMETERS_MAX:
            yield f"{path}::{name}", f"{path}:{node.lineno}: {name} has {count} parameters, {PARAMETERS_MAX} at most that are not keyword-only"


def docstrings(path: str, source: str) -> Iterator[str]:
    """Every module, every public class and function in it, and every method of a protocol says what it is."""
    tree = parsed(source)
    if not ast.get_docstring(tree):
        yield f"{path}:1: the module has no docstring; write the sentence that explains it"
    for name, node in definitions_of(tree):
        public = not any(part.startswith("_") for part in name.split("."))
        if public and _must_be_documented(tree, name, node) and not ast.get_docstring(node):
            yield f"{path}:{node.lineno}: {name} is public and has no docstring"


def swallowed_errors(path: str, source: str) -> Iterator[str]:
    """Nobody catches everything to do nothing."""
    if not ANY_ERROR.search(source):
        return
    for node in nodes_of(source):
        match node:
            case ast.ExceptHandler(type=kind, body=body) if _is_any_error(kind) and all(map(_does_nothing, body)):
                yield f"{path}:{node.lineno}: this swallows every error; name the one that is expected, or let it through"
            case ast.Call(func=function, args=kinds) if _dotted(function).split(".")[-1] == "suppress" and any(map(_is_any_error, kinds)):
                yield f"{path}:{node.lineno}: this swallows every error; name the one that is expected, or let it through"


def bare_ignores(path: str, source: str) -> Iterator[str]:
    """An ignore names its rule and has its reason beside it: `# noqa: S101  # the reason`."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline) if IGNORE.search(source) else ():
        if token.type == tokenize.COMMENT and IGNORE.search(token.string) and not IGNORE_WITH_REASON.search(token.string):
            yield f"{path}:{token.start[0]}: an ignore needs its rule and, behind another #, its reason"


def unfinished(path: str, source: str) -> Iterator[str]:
    """What is left to do is not left in the tree."""
    for number, line in enumerate(source.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield f"{path}:{number}: {found[0]}: finish it, or say what is so and why"


def mirrored(path: str, packages: set[str]) -> Iterator[str]:
    """Tests mirror the tree: a directory of tests is named like what it tests, one of `packages` (under src/perdure)."""
    directory = PurePosixPath(path).parent
    if str(directory) == "tests" or any(str(parent) in TESTS_OF_THEIR_OWN for parent in (directory, *directory.parents)):
        return
    if str(directory.relative_to("tests")) not in packages:
        yield f"{path}:1: there is no src/perdure/{directory.relative_to('tests')} that this could be testing"


def gerunds(path: str, source: str) -> Iterator[str]:
    """No module is named by a gerund: its name is a noun for what is in it."""
    name = PurePosixPath(path).stem
    if any(part.endswith("ing") and part not in NOUNS_IN_ING for part in (name.split("_")[-1], PurePosixPath(path).parent.name)):
        yield f"{path}:1: a module is named by a noun for its content, not by a word in -ing; rename it, or add the noun to NOUNS_IN_ING"


def named_kinds(path: str, source: str) -> Iterator[str]:
    """No decision about a kind or a dialect by its name outside of what declares it: kinds that packages bring would be left out."""
    module = _module(path)
    if not module.startswith(BLIND_TO_KINDS) or module in KINDS_DECLARED_BY:
        return
    for node in nodes_of(source):
        for part in _decisive_parts(node):
            for constant in (one for one in ast.walk(part) if isinstance(one, ast.Constant) and one.value in NAMES_OF_KINDS):
                yield f"{path}:{constant.lineno}: this decides by the name {constant.value!r}; read what the kind, the verb or the dialect declares"


def _decisive_parts(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node whose constants decide something: comparands, patterns, keys that are looked up, and constants with a name."""
    match node:
        case ast.Compare(left=left, comparators=others):
            yield from (left, *others)
        case ast.MatchValue(value=value) | ast.Assign(value=ast.Constant() as value):
            yield value
        case ast.MatchMapping(keys=keys):
            yield from keys
        case ast.Subscript(value=value, slice=key, ctx=ast.Load()) if _dotted(value) != "Literal":
            yield key
        case ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[key, *_]):
            yield key


def cycles(sources: Mapping[str, str]) -> list[frozenset[str]]:
    """The groups of modules that import each other, directly or not; `sources` are by path. Late imports and those for types count."""
    modules = {_import_name(path): path for path in sources}
    graph = {name: {found for found in _imported_modules(path, sources[path], modules) if found in modules and found != name} for name, path in modules.items()}
    reachable: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        stack = [start]
        while stack:
            stack += (new := graph[stack.pop()] - seen)
            seen |= new
        reachable[start] = seen
    groups = {frozenset(other for other in reachable[name] if name in reachable[other]) for name in graph if name in reachable[name]}
    return sorted(groups, key=sorted)


def shared_basenames(paths: Iterable[str]) -> Iterator[str]:
    """No two modules of different packages have one basename, but for packages that are parallel."""
    homes: dict[str, list[str]] = {}
    for path in paths:
        package = ".".join(PurePosixPath(path).relative_to("src/perdure").parent.parts)
        if PurePosixPath(path).stem not in ("__init__", "__main__"):
            homes.setdefault(PurePosixPath(path).stem, []).append(package)
    for name, packages in homes.items():
        if len(packages) > 1 and not any(set(packages) <= parallel for parallel in PARALLEL_PACKAGES):
            yield f"{name}.py is in {' and in '.join(sorted(packages))}; name each for what is in it"


def shared_class_names(sources: Mapping[str, str]) -> Iterator[str]:
    """No two public classes have one name."""
    homes: dict[str, list[str]] = {}
    for path, source in sources.items():
        for node in parsed(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path)
    for name, paths in homes.items():
        if len(paths) > 1:
            yield f"class {name} is in {' and in '.join(sorted(paths))}; a name means one thing"


SRC_RULES: tuple[Rule, ...] = (layers, purity, sizes, docstrings, gerunds, named_kinds)
PYTHON_RULES: tuple[Rule, ...] = (swallowed_errors, bare_ignores)
TEXT_RULES: tuple[Rule, ...] = (unfinished,)


@cache
def parsed(source: str) -> ast.Module:
    """The syntax tree of a module, which is parsed once for all checks."""
    return ast.parse(source)


@cache
def nodes_of(source: str) -> tuple[ast.AST, ...]:
    """All nodes of the tree of a module."""
    return tuple(ast.walk(parsed(source)))


def _module(path: str) -> str:
    """The dotted name of the module at `path`; a package's is that of its `__init__`."""
    return ".".join(PurePosixPath(path).relative_to("src").with_suffix("").parts)


def _import_name(path: str) -> str:
    """The name by which a module is imported."""
    return _module(path).removesuffix(".__init__")


def _imported_modules(path: str, source: str, modules: Container[str]) -> Iterator[str]:
    """The modules that one imports: `from perdure.core import paths` imports `perdure.core.paths` if that is a module, and else `perdure.core`."""
    package = _module(path).split(".")[:-1]
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*(package[: len(package) - node.level + 1] if node.level else []), *([node.module] if node.module else [])])
            yield from (one if (one := f"{base}.{alias.name}") in modules else base for alias in node.names)


def _layer(module: str) -> str:
    parts = module.split(".")
    name = parts[1] if len(parts) > 1 else "__init__"
    if name == "definitions" and len(parts) > 2 and parts[2] in PARTS_OF_DEFINITIONS:
        return parts[2]
    directly_under_perdure = len(parts) <= 2 and name not in MAY_IMPORT
    return "surface" if name in SURFACES or directly_under_perdure else name


def _imports(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Each import with its line, as an absolute dotted name; `from perdure import core` is one of perdure.core."""
    package = _module(path).split(".")[:-1]
    for node in nodes_of(source):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = ".".join([*(package[: len(package) - level + 1] if level else []), *([module] if module else [])])
                yield from ((node.lineno, f"{base}.{alias.name}" if base == "perdure" else base) for alias in names)
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]) if _dotted(function) in _IMPORTERS:
                yield node.lineno, name


_IMPORTERS = {"__import__", "import_module", "importlib.import_module"}


def _impure_uses(source: str) -> Iterator[tuple[int, str]]:
    modules = {alias.asname or alias.name: alias.name for node in nodes_of(source) if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes_of(source):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module in IMPURE_PARTS:
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names if IMPURE_PARTS[module].fullmatch(alias.name))
            case ast.Attribute(value=ast.Name(id=name), attr=part) if (module := modules.get(name, "")) in IMPURE_PARTS:
                if IMPURE_PARTS[module].fullmatch(part):
                    yield node.lineno, f"{module}.{part}"
            case ast.Call(func=function):
                name = ".".join(_dotted(function).split(".")[-2:])
                if name in IMPURE_CALLS or (name.split(".")[-1] == "Random" and not node.args):
                    yield node.lineno, f"{name}()"


@cache
def definitions_of(tree: ast.Module) -> tuple[tuple[str, Definition], ...]:
    """Every class and function with its qualified name, outer ones first."""
    return tuple(_definitions(tree.body, ""))


def _definitions(statements: Iterable[ast.AST], scope: str) -> Iterator[tuple[str, Definition]]:
    for node in statements:
        if isinstance(node, Definition):
            yield f"{scope}{node.name}", node
            yield from _definitions(node.body, f"{scope}{node.name}.")
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _definitions(ast.iter_child_nodes(node), scope)


def _must_be_documented(tree: ast.Module, name: str, node: Definition) -> bool:
    if any(_dotted(decorator).split(".")[-1] == "overload" for decorator in node.decorator_list):
        return False
    owner = next((top for top in tree.body if isinstance(top, ast.ClassDef) and top.name == name.split(".")[0]), None)
    is_protocol = owner is not None and any(_dotted(base).split(".")[-1] == "Protocol" for base in owner.bases)
    return "." not in name or (is_protocol and name.count(".") == 1)


def _names_given(source: str) -> Iterator[tuple[int, str]]:
    """The names that a module gives: what it defines, assigns, takes or imports as; not what others have named."""
    for node in nodes_of(source):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((node.lineno, alias.asname) for alias in names if alias.asname)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of a name, an attribute, or either one subscripted or called; "" of anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_dotted(value)}.{name}"
        case ast.Subscript(value=value) | ast.Call(func=value):
            return _dotted(value)
        case _:
            return ""


def _is_any_error(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(map(_is_any_error, kind.elts))
    return kind is None or _dotted(kind) in {"Exception", "BaseException"}


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass | ast.Continue) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
