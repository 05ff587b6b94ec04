"""Make anew what strips types from TypeScript in the sandbox: the npm package sucrase as one file of JavaScript, and the licences of what is in it.

    python tools/bundle_sucrase.py

It takes npm and the network, and changes `src/perdure/definitions/kinds/sandbox/sucrase.js` and `sucrase.LICENSE.txt` alone.
"""

import json
import subprocess
import tempfile
from pathlib import Path

SUCRASE, ESBUILD = "3.35.1", "0.28.2"
HERE = Path(__file__).parent.parent / "src/perdure/definitions/kinds/sandbox"
HEADER = f"// sucrase {SUCRASE} and what it takes, bundled by tools/bundle_sucrase.py, which makes this file anew; see sucrase.LICENSE.txt."
RULE = "-" * 80
OPTIONS = ("--bundle", "--format=iife", "--global-name=sucrase", "--platform=neutral", "--main-fields=module,main", "--minify", "--charset=ascii")


def main() -> None:
    """Bundle it."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "package.json").write_text("{}")
        (place / "entry.js").write_text('export {transform} from "sucrase";\n')
        subprocess.run(["npm", "install", "--silent", f"sucrase@{SUCRASE}", f"esbuild@{ESBUILD}"], cwd=place, check=True)
        made = ["--outfile=made.js", "--metafile=meta.json", "--log-level=warning", "--legal-comments=none"]
        subprocess.run(["node_modules/.bin/esbuild", "entry.js", *OPTIONS, *made], cwd=place, check=True)
        inputs = json.loads((place / "meta.json").read_text())["inputs"]
        packages = sorted({_package(name) for name in inputs if name.startswith("node_modules/")})
        (HERE / "sucrase.js").write_text(f"{HEADER}\n{(place / 'made.js').read_text()}")
        (HERE / "sucrase.LICENSE.txt").write_text("\n".join(_licence(place / "node_modules" / name, name) for name in packages))
        print(f"bundled {', '.join(packages)}")


def _package(path: str) -> str:
    parts = path.split("/")[1:]
    return "/".join(parts[: 1 + parts[0].startswith("@")])


def _licence(package: Path, name: str) -> str:
    about = json.loads((package / "package.json").read_text())
    (file,) = (one for one in package.iterdir() if one.name.upper().startswith("LICEN"))
    return f"{RULE}\n{name} {about['version']} ({about['license']})\n{RULE}\n\n{file.read_text()}"


if __name__ == "__main__":
    main()
