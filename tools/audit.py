"""Asks sources of advisories about every package that is installed here, by pip-audit.

    python -m tools.audit

Exit code 0: a source was asked about all of them and knows of nothing. 1: there are advisories. 2: not checked, because no source answered. A source
counts only if it knows the advisories of an old package that is asked about first, since a mirror may answer and know of none.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path

from tools.source_hash import ROOT

PIP_AUDIT = (str(ROOT / ".venv-release" / "bin" / "python"), "-m", "pip_audit")
SOURCES = ("pypi", "osv")
KNOWN_BAD = "pyyaml==5.3"
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


def main() -> int:
    """Audit this environment."""
    code, lines = audit(installed())
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
