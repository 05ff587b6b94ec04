"""Writes the bill of materials of the wheel in dist/: all that `pip install "perdure[all]"` brings, with versions and licences, in CycloneDX's JSON.

    python -m tools.bill_of_materials

The wheel is installed with all extras into an empty environment, whose packages cyclonedx-py then lists.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

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
    names = {component["name"].lower() for component in listed["components"]}
    if listed["metadata"]["component"]["name"] != "perdure" or not names >= {"msgspec", "click", "cryptography"}:
        raise ValueError(f"{bill} is not the bill of materials of perdure: it has {', '.join(sorted(names)) or 'no packages'}")
    print(f"written: {bill.relative_to(ROOT)}, {len(names)} packages")
    return bill


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
