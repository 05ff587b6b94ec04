"""An audit passes only when a source that knows of advisories was asked about every package and knows of none."""

import sys
from pathlib import Path

import pytest

from tools import audit

pytestmark = pytest.mark.slow

SCRIPT = """
import json, sys
KNOWN = {known!r}
def main():
    source = sys.argv[sys.argv.index("-s") + 1]
    if source not in KNOWN:
        sys.exit("ERROR: could not reach " + source)
    with open(sys.argv[sys.argv.index("-r") + 1]) as file:
        packages = [line.split("==") for line in file.read().split()]
    known = KNOWN[source]
    told = [dict(name=name, version=version, vulns=[dict(id=id) for id in known[name]]) for name, version in packages if name in known]
    print(json.dumps(dict(dependencies=told, fixes=[])))
main()
"""


def audited(directory: Path, known: dict[str, dict[str, list[str]]]) -> tuple[int, str]:
    """What an audit of two packages says where sources know this much, by source and package."""
    script = directory / "pip_audit.py"
    script.write_text(SCRIPT.format(known=known))
    code, lines = audit.audit(["msgspec==0.19.0", "click==8.1.0"], [sys.executable, str(script)])
    return code, "\n".join(lines)


CLEAN: dict[str, list[str]] = {"pyyaml": ["PYSEC-1"], "msgspec": [], "click": []}


def test_a_source_that_knows_of_nothing_here_passes(tmp_path: Path) -> None:
    assert audited(tmp_path, {"osv": CLEAN}) == (0, "audit: osv knows of no advisory for the 2 packages that are installed here")


def test_an_advisory_fails_and_is_named(tmp_path: Path) -> None:
    code, said = audited(tmp_path, {"pypi": {**CLEAN, "click": ["CVE-1", "CVE-2"]}})
    assert code == 1
    assert "pypi has advisories for 1 of 2 packages" in said
    assert "click==8.1.0: CVE-1, CVE-2" in said


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({}, "pypi: ERROR: could not reach pypi"),
        ({"pypi": {**CLEAN, "pyyaml": []}}, "pypi: it knows of no advisory for pyyaml==5.3"),
        ({"pypi": {"pyyaml": ["PYSEC-1"], "click": []}}, "pypi: it answered for 1 of 2 packages"),
    ],
    ids=["no source", "a source without advisories", "a package that is not known"],
)
def test_what_was_not_checked_never_passes(known: dict[str, dict[str, list[str]]], why: str, tmp_path: Path) -> None:
    code, said = audited(tmp_path, known)
    assert code == 2
    assert said.startswith("audit: not checked: no source of advisories answered.")
    assert why in said


def test_where_pip_audit_is_not_installed_nothing_passes() -> None:
    code, lines = audit.audit(["msgspec==0.19.0"], ["/nowhere/python"])
    assert code == 2
    assert "not checked" in lines[0]


def test_everything_installed_is_asked_about_but_perdure() -> None:
    names = {package.partition("==")[0] for package in audit.installed()}
    assert {"msgspec", "pytest"} <= names
    assert "perdure" not in names
