"""Keeps the first line of docs/proof.md true: it names the source that was proven, and says "Outdated" when that is not the present one.

    python -m tools.proof_page

`make format` runs this, `make prove` writes a new page, and a test compares the line with the source.
"""

import re
import sys
from pathlib import Path

from tools.source_hash import ROOT, source_hash

PAGE = ROOT / "docs" / "proof.md"
PROVEN = re.compile(r"src ([0-9a-f]{12})")


def title(proven: str, present: str) -> str:
    """The first line of a page on the source with a hash, when the present source has another or the same."""
    return f"# The proof of src {proven}" if proven == present else f"# Outdated: this proves src {proven}, which has changed since"


def true_title(page: str) -> str:
    """The first line that a page should have.

    Raises:
        ValueError: the page does not say what it proves.
    """
    found = PROVEN.search(page.partition("\n")[0])
    if found is None:
        raise ValueError("the first line of docs/proof.md names no hash of src; run make prove, or restore the line from git")
    return title(found[1], source_hash())


def main(path: Path = PAGE) -> int:
    """Write the first line anew if it is not true."""
    page = path.read_text(encoding="utf-8")
    first, _, rest = page.partition("\n")
    if first != (true := true_title(page)):
        path.write_text(f"{true}\n{rest}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
