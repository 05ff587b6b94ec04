"""The guide notebooks.md shows what happens: each of its blocks is a cell of a real notebook, and displays what stands behind it."""

import time
from pathlib import Path

import pytest

from tests.display.notebook_kernel import kernel_in
from tests.docs.pages import AGAIN_S, PROMISED, ROOT, alike, blocks


@pytest.mark.slow
def test_every_cell_of_the_guide_displays_what_it_says(tmp_path: Path) -> None:
    page = blocks((ROOT / "docs/guides/notebooks.md").read_text(encoding="utf-8"))
    compared = 0
    with kernel_in(tmp_path) as kernel:
        for block, behind in zip(page, [*page[1:], None], strict=True):
            if block.language != "python":
                continue
            promised = "\n".join(PROMISED.findall(block.text)) or (behind.text if behind is not None and behind.language == "text" else "")
            said, until_s = kernel.run(block.text), time.monotonic() + AGAIN_S
            while "again" in block.marks and not alike(promised, said) and time.monotonic() < until_s:
                said = kernel.run(block.text)
            assert alike(promised, said), f"line {block.line}: it displays\n{said}\nand not\n{promised}"
            compared += bool(promised)
    assert compared >= 6
