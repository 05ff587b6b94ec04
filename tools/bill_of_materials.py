"""Writes the bill of materials of the wheel in dist/: all that `pip install "perdure[all]"` brings, with versions and licences, in CycloneDX's JSON.

    python -m tools.bill_of_materials

The wheel is installed with all extras into an empty environment, whose packages cyclonedx-py then lists. The packages of npm of which the built console
consists are added by the lock file.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tools.build_console import CONSOLE
from tools.source_hash import ROOT

CYCLONEDX = (str(ROOT / ".venv-release" / "bin" / "python"), "-m", "cyclonedx_py")
DIST = ROOT / "dist"


def write(wheel: Path) -> Path:
    """Write the bill of a wheel beside it, as `NAME-VERSION.cdx.json`.

    Raises:
        subprocess.CalledProcessError: the wheel or what it needs cannot be installed or listed.
        ValueError: the bill lacks a package.
    """
    name, version, *_ = wheel.name.split("-")
    bill = wheel.with_name(f"{name}-{version}.cdx.json")
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, with_pip=True)
        python = Path(directory, "Scripts" if sys.platform == "win32" else "bin", "python")
        subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", f"{wheel}[all]"], check=True)
        subprocess.run([python, "-m", "pip", "uninstall", "-qq", "--yes", "pip", "setuptools"], check=True)
        options = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible", "--output-format", "JSON", "--output-file", str(bill)]
        subprocess.run([*CYCLONEDX, "environment", *options, str(python)], check=True)
    listed = json.loads(bill.read_text())
    listed["components"] += (bundled := npm_components(json.loads((CONSOLE / "package-lock.json").read_text())))
    bill.write_text(json.dumps(listed, indent=2) + "\n")
    names = {component["name"].lower() for component in listed["components"]}
    if listed["metadata"]["component"]["name"] != "perdure" or not names >= {"msgspec", "click", "cryptography", "react"}:
        raise ValueError(f"{bill} is not the bill of materials of perdure: it has {', '.join(sorted(names)) or 'no packages'}")
    print(f"written: {bill.relative_to(ROOT)}, {len(names)} packages, of which {len(bundled)} are of npm")
    return bill


def npm_components(lock: dict[str, Any]) -> list[dict[str, Any]]:
    """The packages of a lock file of npm that become part of what is built, as components; those that only build it are left out."""
    found: dict[str, dict[str, Any]] = {}
    for place, one in lock["packages"].items():
        if not place or one.get("dev") or one.get("devOptional") or one.get("optional"):
            continue
        name = one.get("name") or place.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{quote(name, safe='/')}@{one['version']}"
        licences = _licences(one.get("license", ""))
        found[purl] = {"type": "library", "bom-ref": purl, "name": name, "version": one["version"], "purl": purl, **licences}
    return [found[purl] for purl in sorted(found)]


def _licences(text: str) -> dict[str, Any]:
    """The licence of a package, which is the name of one or an expression of several."""
    if not text:
        return {}
    return {"licenses": [{"expression": text.strip("()")} if " " in text else {"license": {"id": text}}]}


def main() -> int:
    """Write the bill of the one wheel in dist/."""
    match list(DIST.glob("perdure-*.whl")):
        case [wheel]:
            write(wheel)
            return 0
        case wheels:
            print(f"bill of materials: dist/ has {len(wheels)} wheels of perdure, not one; run make build", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
