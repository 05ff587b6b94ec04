"""How large the first page of the console is, and how soon a list of 50 executions can be used, in Chromium on a file with 100,000 executions.

    PYTHONPATH=. python bench/console.py                    # 15 rounds
    PYTHONPATH=. python bench/console.py --executions 20000 --rounds 5

The first page is what the browser receives until the list is there, compressed by gzip: code, style and page, without what the API answers. A list can be used
once its rows are drawn and a frame has been shown after that. It is opened cold (an empty cache, a new profile), by navigation inside the page, and by a filter
that was not read before. Medians and the greatest; the bounds are 350 KB, 500 ms and 100 ms. The console has to be built; it needs Playwright and Chromium.
"""

import argparse
import importlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench._http_server import TOKEN
from bench.console_graph import OPTIONS

KILOBYTES_MAX, COLD_MS_MAX, INSIDE_MS_MAX = 350.0, 500.0, 100.0
ROWS_SHOWN = 12
"""So many rows are in sight; more are drawn when one scrolls to them."""

WATCH = """(() => {
  const keep = (began, rows) => {
    const number = (window.sought = (window.sought ?? 0) + 1);
    window.took = null;
    const look = () => {
      if (number !== window.sought) return;
      const drawn = document.querySelectorAll('[role="table"][aria-label="Executions"] [role="row"][data-index]').length;
      const isBusy = document.querySelector('[role="status"]')?.textContent?.startsWith('Reading');
      const isThere = drawn >= rows && !isBusy && location.href !== window.left;
      if (isThere) requestAnimationFrame(() => { if (number === window.sought) window.took = performance.now() - began; });
      else requestAnimationFrame(look);
    };
    look();
  };
  const listen = (event) => {
    if (event.type === 'keydown' && event.key !== 'Enter') return;
    window.left = location.href;
    keep(event.timeStamp, ROWS);
  };
  addEventListener('click', listen, true);
  addEventListener('keydown', listen, true);
  keep(0, ROWS);
})()""".replace("ROWS", str(ROWS_SHOWN))
"""Measures in the page: from its navigation, a click or Enter until a frame with the list of the new address has been shown. Playwright only reads the result,
because what it does before a click, such as waiting until a link stays in its place, is no part of what a user waits for.
"""

TOOK = "() => new Promise((found) => { const look = () => window.took == null ? setTimeout(look, 5) : found(window.took); look(); })"


class Measure(NamedTuple):
    """Some values of one kind, and the bound of their median."""

    name: str
    unit: str
    values: Sequence[float]
    bound: float

    @property
    def is_good(self) -> bool:
        """Whether the median is within the bound."""
        return statistics.median(self.values) <= self.bound

    def line(self) -> str:
        """A line of the table."""
        verdict = "ok" if self.is_good else "TOO MUCH"
        return f"{self.name:<36}{statistics.median(self.values):>8.0f} {self.unit:<3} (at most {max(self.values):,.0f}; bound {self.bound:,.0f})  {verdict}"


@contextmanager
def serving(executions: int) -> Iterator[str]:
    """A server of its own process, until the end of the block; yields its URL."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "bench._console_server", f"{place}/bench.db", str(executions)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                yield server.stdout.readline().strip()
            finally:
                server.kill()


def measured(browser: Any, url: str, rounds: int) -> Iterator[Measure]:
    """The size of the first page, and the times of lists."""
    sizes, cold, inside, filtered = list[float](), list[float](), list[float](), list[float]()
    for number in range(rounds):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_init_script(WATCH)
        page = context.new_page()
        page.goto(f"{url}/executions#token={TOKEN}", wait_until="commit")
        cold.append(page.evaluate(TOOK))
        sizes.append(page.evaluate(SIZE) / 1024)
        page.wait_for_timeout(500)
        page.get_by_role("link", name="Approvals", exact=True).click()
        page.wait_for_timeout(500)
        page.get_by_role("link", name="Executions", exact=True).click()
        inside.append(page.evaluate(TOOK))
        box = page.get_by_label("Filter", exact=True)
        box.fill(f"workflow=filled id=f{number % 9 + 1}")
        box.press("Enter")
        filtered.append(page.evaluate(TOOK))
        context.close()
    yield Measure("first page, by gzip", "KB", sizes, KILOBYTES_MAX)
    yield Measure("list of 50, cold", "ms", cold, COLD_MS_MAX)
    yield Measure("list of 50, inside the page", "ms", inside, INSIDE_MS_MAX)
    yield Measure("list of 50, by a new filter", "ms", filtered, INSIDE_MS_MAX)


SIZE = """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter((one) => !new URL(one.name).pathname.startsWith('/api/')).reduce((sum, one) => sum + one.encodedBodySize, 0)"""


def main() -> int:
    """Prints the measures, and returns 1 if one is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--executions", type=int, default=100_000)
    _ = parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        playwright: Any = importlib.import_module("playwright.sync_api")
    except ImportError:
        playwright = None
    if playwright is None or chromium is None:
        print("the console is not measured: it needs Playwright (pip install playwright) and Chromium")
        return 0
    with serving(given.executions) as url, playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=list(OPTIONS))
        found = list(measured(browser, url, given.rounds))
        browser.close()
    print(f"the console with {given.executions:,} executions, median of {given.rounds} rounds")
    for one in found:
        print(one.line())
    return 0 if all(one.is_good for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
