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


# The packages of the console

NPM_SCRIPT = """
import json, sys
from pathlib import Path
KNOWN = {known!r}
if KNOWN is None:
    print(json.dumps(dict(error=dict(code="ENOAUDIT"))))
    sys.exit("npm error audit endpoint returned an error")
places = json.loads(Path("package-lock.json").read_text())["packages"]
named = [(place.rpartition("node_modules/")[2], one["version"]) for place, one in places.items() if place]
via = dict((name, dict(via=[dict(url=address)])) for name, version in named for of, address in KNOWN.items() if of in (name, name + "@" + version))
print(json.dumps(dict(auditReportVersion=2, vulnerabilities=via)))
sys.exit(1 if via else 0)
"""


def audited_npm(directory: Path, known: dict[str, str] | None) -> tuple[int, str]:
    """What an audit of the console's packages says where the registry knows this much (None: it answers no such questions)."""
    script = directory / "npm.py"
    script.write_text(NPM_SCRIPT.format(known=known))
    code, lines = audit.audit_npm([sys.executable, str(script)])
    return code, "\n".join(lines)


def test_the_packages_of_the_console_are_asked_about(tmp_path: Path) -> None:
    known = {"lodash@4.17.4": "https://github.com/advisories/GHSA-1"}
    assert audited_npm(tmp_path, known) == (0, "audit: npm knows of no advisory for the packages that the console is built from")
    code, said = audited_npm(tmp_path, {**known, "react": "https://github.com/advisories/GHSA-2"})
    assert code == 1 and "react: https://github.com/advisories/GHSA-2" in said


@pytest.mark.parametrize(("known", "why"), [(None, "audit endpoint returned an error"), ({}, "it knows of no advisory for {'lodash': '4.17.4'}")])
def test_packages_of_the_console_that_were_not_checked_do_not_pass(known: dict[str, str] | None, why: str, tmp_path: Path) -> None:
    code, said = audited_npm(tmp_path, known)
    assert code == 2 and "npm: not checked" in said and why in said
