"""Compares the package of an earlier commit with this one: both run the same random programs and definitions, and must come to the same.

    python -m tools.runtime_differential OLD_COMMIT --programs 8000 --definitions 2000

Compared are the effects and the logs of programs, their results among them, and the facts of definitions (how each ended, each piece of work, its tries).
Moments, holders and how events are divided among commits may differ. Where logs have the same events in another order, that is told apart, because
the order of what happens at one moment is free; so are effects and events of branches that lose a race, which may come or not before they are cancelled,
and which of several branches sets an attribute whose name counts how many were set before.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BATCH = 250

FREE = ("order", "effects of losers", "events of a race", "attributes in another order")
"""The kinds of difference that are counted and are no failure."""


def _kind_of_difference(events: Sequence[str]) -> str:
    """Whether these events, which only one of two logs has, are free to differ."""
    if all("('race', " in event for event in events):
        return "events of a race"
    if all("'role': 'attributes'" in event for event in events):
        return "attributes in another order"
    return "log"


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """What two checkouts tell differently about one seed: the first word says which kind of difference it is."""
    if old["input"] != new["input"]:
        yield "input: the two checkouts made different programs or definitions, and nothing else was compared"
        return
    for name in ("problems", "facts"):
        if old.get(name) != new.get(name):
            yield f"{name}: {old.get(name)} before, {new.get(name)} now"
    effects, others = old.get("effects", {}), new.get("effects", {})
    different = {name for name in {*effects, *others} if effects.get(name) != others.get(name)}
    if different:
        kind = "effects of losers" if different <= {*old["maybe"]} else "effects"
        yield f"{kind}: {effects} before, {others} now"
    logs, now_logs = old.get("logs", {}), new.get("logs", {})
    if logs.keys() != now_logs.keys():
        yield f"executions: {sorted(logs)} before, {sorted(now_logs)} now"
    for key in sorted(logs.keys() & now_logs.keys()):
        before, now = Counter(logs[key]), Counter(now_logs[key])
        if before != now:
            lost, added = sorted((before - now).elements()), sorted((now - before).elements())
            yield f"{_kind_of_difference([*lost, *added])}: {key} has {lost} before, {added} now"
        elif logs[key] != now_logs[key]:
            yield f"order: {key} has the same events in another order"


def _checked_out(commit: str, directory: Path) -> Path:
    packed = subprocess.run(["git", "archive", commit, "src", "tests"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
    return directory


def _begun(checkout: Path, first: int, count: int, options: Sequence[str]) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'src'}", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-P", str(ROOT / "tools" / "runtime_facts.py"), str(checkout), str(first), str(count), *options]
    return subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True)


def _told(checkouts: Sequence[Path], first: int, count: int, options: Sequence[str]) -> Iterator[list[dict[str, Any]]]:
    """What each of the two checkouts tells about each seed; they run side by side."""
    processes = [_begun(checkout, first, count, options) for checkout in checkouts]
    printed = [process.communicate()[0] for process in processes]
    for process in processes:
        if process.returncode:
            raise SystemExit(f"The run of tools/runtime_facts.py failed with exit code {process.returncode}; its own words are above.")
    for lines in zip(*(text.splitlines() for text in printed), strict=True):
        yield [json.loads(line) for line in lines]


def _compared(checkouts: Sequence[Path], first: int, count: int, options: Sequence[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for start in range(first, first + count, BATCH):
        for old, new in _told(checkouts, start, min(BATCH, first + count - start), options):
            found["compared"] += 1
            for difference in differences(old, new):
                found[difference.partition(":")[0]] += 1
                if not difference.startswith(FREE):
                    sys.stdout.write(f"seed {old['seed']} {' '.join(options)}: {difference:.1500}\n")
        sys.stdout.write(f"{dict(found)} {' '.join(options)}\n")
        sys.stdout.flush()
    return found


def main() -> int:
    """Compare, print each difference that is not free, and how many of each kind there are; 1 if any is not free."""
    parser = argparse.ArgumentParser(prog="python -m tools.runtime_differential")
    parser.add_argument("commit")
    parser.add_argument("--programs", type=int, default=8000)
    parser.add_argument("--definitions", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="perdure-differential-") as directory:
        checkouts = [_checked_out(given.commit, Path(directory).resolve()), ROOT]
        found = _compared(checkouts, given.first, given.programs, ()) + _compared(checkouts, given.first, given.definitions, ("--definitions",))
    return int(any(kind not in ("compared", *FREE) for kind in found))


if __name__ == "__main__":
    sys.exit(main())
