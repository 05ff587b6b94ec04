"""Asks sources of advisories about every package that is installed here, by pip-audit, and about those that the console is built from, by npm.

    python -m tools.audit

Exit code 0: a source was asked about all of them and knows of nothing. 1: there are advisories. 2: some were not checked, because no source answered. A source
counts only if it knows the advisories of an old package that is asked about first, since a mirror may answer and know of none.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from tools.build_console import CONSOLE, UnavailableError, npm_command
from tools.source_hash import ROOT

PIP_AUDIT = (str(ROOT / ".venv-release" / "bin" / "python"), "-m", "pip_audit")
SOURCES = ("pypi", "osv")
KNOWN_BAD = "pyyaml==5.3"
KNOWN_BAD_NPM = {"lodash": "4.17.4"}
LIMIT_S = 600.0

Advisories = dict[str, list[str]]


class NotAnsweredError(Exception):
    """A source did not say of each package whether there are advisories."""


def installed() -> list[str]:
    """The packages of this environment and their versions, without Perdure itself."""
    found = {(one.metadata["Name"].lower(), one.version) for one in distributions()}
    return [f"{name}=={version}" for name, version in sorted(found) if name != "perdure"]


def ask(command: Sequence[str], source: str, packages: list[str]) -> Advisories:
    """What a source knows of these packages: those that there are advisories for.

    Raises:
        NotAnsweredError: it could not be reached, or does not know one of the packages.
    """
    with tempfile.TemporaryDirectory() as directory:
        wanted = Path(directory, "requirements.txt")
        wanted.write_text("\n".join(packages) + "\n")
        options = ["--strict", "--no-deps", "--disable-pip", "-r", str(wanted), "-s", source, "--format", "json", "--progress-spinner", "off"]
        try:
            done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotAnsweredError(str(error)) from None
    try:
        told = json.loads(done.stdout)["dependencies"]
        found = {f"{one['name']}=={one['version']}": [advisory["id"] for advisory in one["vulns"]] for one in told}
    except (ValueError, KeyError, TypeError):
        raise NotAnsweredError((done.stderr.strip().splitlines() or [f"exit code {done.returncode} and no output"])[-1]) from None
    if len(found) < len(packages):
        raise NotAnsweredError(f"it answered for {len(found)} of {len(packages)} packages")
    return {package: advisories for package, advisories in found.items() if advisories}


def audit(packages: list[str], command: Sequence[str] = PIP_AUDIT) -> tuple[int, list[str]]:
    """Ask one source after the other until one answers; return the exit code and what to print."""
    lines: list[str] = []
    for source in SOURCES:
        try:
            if not ask(command, source, [KNOWN_BAD]):
                raise NotAnsweredError(f"it knows of no advisory for {KNOWN_BAD}, for which there are some")
            found = ask(command, source, packages)
        except NotAnsweredError as error:
            lines.append(f"{source}: {error}")
            continue
        if not found:
            return 0, [f"audit: {source} knows of no advisory for the {len(packages)} packages that are installed here"]
        shown = [f"  {package}: {', '.join(advisories)}" for package, advisories in found.items()]
        return 1, [f"audit: {source} has advisories for {len(found)} of {len(packages)} packages; raise their versions in pyproject.toml", *shown]
    return 2, [
        "audit: not checked: no source of advisories answered. Run it again where pypi.org or api.osv.dev can be reached",
        *(f"  {line}" for line in lines),
    ]


def ask_npm(command: Sequence[str], environment: Mapping[str, str] | None, directory: Path) -> Advisories:
    """What the registry of npm knows of the packages of the lock file in a directory: those that there are advisories for.

    Raises:
        NotAnsweredError: it could not be reached, or does not answer such questions.
    """
    try:
        done = subprocess.run([*command, "audit", "--json"], cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        told = json.loads(done.stdout)
        found = {name: sorted(_npm_advisories(one)) for name, one in told["vulnerabilities"].items()}
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAnsweredError(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NotAnsweredError((done.stderr.strip().splitlines() or [f"exit code {done.returncode} and no output"])[-1]) from None
    return found


def _npm_advisories(one: Mapping[str, Any]) -> set[str]:
    """The addresses of the advisories for a package, or the packages that it has them from."""
    return {reason if isinstance(reason, str) else str(reason.get("url", reason.get("source", ""))) for reason in one["via"]}


def audit_npm(command: Sequence[str], environment: Mapping[str, str] | None = None, console: Path = CONSOLE) -> tuple[int, list[str]]:
    """Asks the registry of npm about the packages of the console; returns the exit code and what to print."""
    try:
        with tempfile.TemporaryDirectory() as directory:
            packages = {f"node_modules/{name}": {"version": version} for name, version in KNOWN_BAD_NPM.items()}
            lock = {"name": "old", "lockfileVersion": 3, "packages": {"": {"dependencies": KNOWN_BAD_NPM}, **packages}}
            Path(directory, "package.json").write_text(json.dumps({"name": "old", "dependencies": KNOWN_BAD_NPM}))
            Path(directory, "package-lock.json").write_text(json.dumps(lock))
            if not ask_npm(command, environment, Path(directory)):
                raise NotAnsweredError(f"it knows of no advisory for {KNOWN_BAD_NPM}, for which there are some")
        found = ask_npm(command, environment, console)
    except NotAnsweredError as error:
        return 2, ["audit: npm: not checked: the registry of npm has not answered. Run it again where registry.npmjs.org can be reached", f"  {error}"]
    if not found:
        return 0, ["audit: npm knows of no advisory for the packages that the console is built from"]
    shown = [f"  {package}: {', '.join(advisories)}" for package, advisories in found.items()]
    return 1, [f"audit: npm has advisories for {len(found)} packages of the console; raise their versions in console/package.json", *shown]


def main() -> int:
    """Audits this environment and the packages of the console."""
    code, lines = audit(installed())
    try:
        npm_code, npm_lines = audit_npm(*npm_command())
    except UnavailableError as error:
        npm_code, npm_lines = 2, [f"audit: npm: not checked: {error}"]
    print("\n".join([*lines, *npm_lines]))
    return 1 if 1 in (code, npm_code) else max(code, npm_code)


if __name__ == "__main__":
    sys.exit(main())
