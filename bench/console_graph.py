"""How smoothly the console draws a large graph that changes: the time between frames, and from an input to its effect on the screen.

Chromium without a GPU shows the view of graphs with a made execution of so many steps, of which 200 change each second (40 steps, five times a second). It is
measured while nothing else happens, while a person drags the graph, and while one chooses steps by mouse and keyboard; with the whole graph in sight, and
close enough to read. The bounds are those of a thousand steps: 95 of 100 frames within 50 ms, and 95 of 100 inputs within 200 ms, on two processors.

    PYTHONPATH=src:. python -m bench.console_graph --steps 1000 --trace /tmp/traces

Other programs on the machine count; with ``--alone`` the browser has precedence over them (as root, on Linux). It needs Playwright and Chromium.
"""

import argparse
import functools
import http.server
import importlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tools import build_console

FRAME_MS_MAX, INPUT_MS_MAX = 50.0, 200.0
CHANGES = 40
SECONDS = 6.0
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RECORDER = """() => {
  window.recorded = { frames: [], inputs: [] };
  let last = performance.now();
  const tick = () => {
    const now = performance.now();
    window.recorded.frames.push(now - last);
    last = now;
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (entry.interactionId) window.recorded.inputs.push(entry.duration);
  }).observe({ type: "event", durationThreshold: 16 });
}"""


class Measure(NamedTuple):
    """The times of frames and of inputs in milliseconds, sorted. An input of less than 16 ms is not among them."""

    name: str
    frames_ms: list[float]
    inputs_ms: list[float]

    def line(self) -> str:
        """The line of a table."""
        inputs = f"{_part(self.inputs_ms, 0.5):6.0f} {_part(self.inputs_ms, 0.95):6.0f}" if self.inputs_ms else f"{'-':>6} {'-':>6}"
        return (
            f"{self.name:34} {len(self.frames_ms):6} {_part(self.frames_ms, 0.5):6.1f} {_part(self.frames_ms, 0.95):6.1f} {self.frames_ms[-1]:6.1f}  {inputs}"
        )

    @property
    def is_good(self) -> bool:
        """Whether both are within their bounds."""
        return _part(self.frames_ms, 0.95) <= FRAME_MS_MAX and (not self.inputs_ms or _part(self.inputs_ms, 0.95) <= INPUT_MS_MAX)


def _part(values: Sequence[float], part: float) -> float:
    return values[min(len(values) - 1, int(part * len(values)))]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves a folder; yields its URL."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def measures(browser: Any, url: str, steps: int, traces: Path | None) -> Iterator[Measure]:
    """Measures a graph of so many steps, from afar and near."""
    for zoom in ("whole", "readable"):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{url}/graph-samples.html?steps={steps}&changes={CHANGES}")
        page.wait_for_selector("[data-box]", timeout=120_000)
        if zoom == "whole":
            page.get_by_role("button", name="Fit").click()
        page.wait_for_timeout(2_000)
        page.evaluate(RECORDER)
        for name, act in (("watching", _watch), ("dragging", _drag), ("choosing", _choose)):
            if traces is not None:
                browser.start_tracing(page=page, path=str(traces / f"{steps}-{zoom}-{name}.json"))
            page.evaluate("window.recorded.frames.length = window.recorded.inputs.length = 0")
            act(page)
            page.wait_for_timeout(300)
            recorded = page.evaluate("window.recorded")
            if traces is not None:
                browser.stop_tracing()
            yield Measure(f"{steps:,} steps, {zoom}, {name}", sorted(recorded["frames"]), sorted(recorded["inputs"]))
        page.close()


def _watch(page: Any) -> None:
    page.wait_for_timeout(SECONDS * 1_000)


def _drag(page: Any) -> None:
    ends_s = time.monotonic() + SECONDS
    page.mouse.move(500, 300)
    page.mouse.down()
    while time.monotonic() < ends_s:
        for step in (*range(40), *range(40, 0, -1)):
            page.mouse.move(500 + 3 * step, 300 + 2 * step)
            page.wait_for_timeout(12)
    page.mouse.up()


def _choose(page: Any) -> None:
    ends_s = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < ends_s:
        number += 1
        page.mouse.click(250 + number * 37 % 700, 150 + number * 53 % 450)
        page.keyboard.press("ArrowDown")
        page.wait_for_timeout(100)


def main() -> int:
    """Measures, and prints a table; 1 if a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--steps", type=int, nargs="+", default=[1_000], help="how many steps the graphs have; the bounds are for 1000")
    _ = parser.add_argument("--trace", type=Path, metavar="FOLDER", help="keep Chromium's traces there; tracing takes time itself")
    _ = parser.add_argument("--alone", action="store_true", help="give the browser precedence over other programs")
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        playwright = importlib.import_module("playwright.sync_api")
    except ImportError:
        playwright = None
    if playwright is None or chromium is None:
        print("console_graph: skipped; it needs Chromium and Playwright (pip install playwright)")
        return 0
    if given.trace is not None:
        given.trace.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        build_console.build_samples(Path(folder))
        if given.alone:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))
        found = list(_measured(playwright, chromium, Path(folder), given.steps, given.trace))
    bad = [one for one in found if one.name.startswith("1,000 ") and not one.is_good]
    print(json.dumps({"frame_ms_max": FRAME_MS_MAX, "input_ms_max": INPUT_MS_MAX, "over": [one.name for one in bad]}))
    return 1 if bad else 0


def _measured(playwright: Any, chromium: str, folder: Path, sizes: Sequence[int], traces: Path | None) -> Iterator[Measure]:
    print(f"{'':34} {'frames':>6} {'p50':>6} {'p95':>6} {'max':>6}  {'input':>6} {'p95':>6}  (ms)")
    with served(folder) as url, playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=list(OPTIONS))
        for steps in sizes:
            for one in measures(browser, url, steps, traces):
                print(one.line(), flush=True)
                yield one
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
