"""Run the long proofs, resumably, and write what came of them to docs/proof.md.

Each test marked `prove` is run once for each commit; what has passed for the present commit is not run again, so that a
proof may be stopped and taken up later. Then the reports are made. `--fresh` forgets what has passed, `--report` writes how far it is.

Real processes are killed for about an hour (`PERDURE_KILL_S`, in seconds). What a test measures it writes as a line of JSON to
the file `PERDURE_FIGURES`, and it is kept beside the test.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATE = ROOT / ".prove.json"
PROOF = ROOT / "docs" / "proof.md"
BATCH = 8
REPORTS = [
    ("Planted bugs", [sys.executable, "-m", "tools.planted_bugs"]),
    ("Crashes a minute", [sys.executable, "-m", "perdure.testing.simulator", "--worlds", "200", "--seed", "1"]),
    ("Crashes a minute, of definitions", [sys.executable, "-m", "perdure.testing.simulator", "--definitions", "--worlds", "100", "--seed", "1"]),
    ("Crashes a minute, in files", [sys.executable, "-m", "perdure.testing.simulator", "--worlds", "200", "--seed", "1", "--store", "sqlite"]),
    ("Cost of a step", [sys.executable, "bench/steps.py"]),
]


def output(*command: str) -> str:
    """What a command prints.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def commit() -> str:
    """The present commit; with a mark when the tree differs from it."""
    dirty = output("git", "status", "--porcelain", "--untracked-files=no").strip()
    return output("git", "rev-parse", "--short=12", "HEAD").strip() + ("+changes" if dirty else "")


def collected() -> list[str]:
    """The ids of all tests marked `prove`."""
    listed = output(sys.executable, "-m", "pytest", "-m", "prove", "--collect-only", "-q", "-p", "no:cacheprovider")
    return [line for line in listed.splitlines() if "::" in line]


@dataclass
class Proof:
    """How far a proof of one commit is: what has passed, in how many seconds, and the figures that it gave."""

    commit: str
    passed: dict[str, float] = field(default_factory=dict)
    figures: dict[str, list[str]] = field(default_factory=dict)

    def save(self) -> None:
        """Keep it, so that it can be taken up."""
        STATE.write_text(json.dumps(vars(self), indent=1))


def taken_up(commit: str) -> Proof:
    """The proof of this commit as far as it is; a new one, if there is none."""
    state = json.loads(STATE.read_text()) if STATE.exists() else {}
    return Proof(**state) if state.get("commit") == commit else Proof(commit)


def run(tests: list[str], jobs: int) -> tuple[bool, float, dict[str, list[str]]]:
    """Run a batch; whether all passed, how many seconds it took, and the figures."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-m", "prove", "-n", str(jobs), "-p", "no:cacheprovider", *tests]
    figures: dict[str, list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "figures"
        file.touch()
        done = subprocess.run(command, cwd=ROOT, check=False, env={**os.environ, "PERDURE_FIGURES": str(file)})
        for line in map(json.loads, file.read_text().splitlines()):
            figures[line["test"]].append(line["figures"])
    return done.returncode == 0, time.monotonic() - begun, dict(figures)


def prove(jobs: int, proof: Proof) -> list[str]:
    """Run what has not passed yet, batch by batch; return what fails."""
    left = [test for test in collected() if test not in proof.passed]
    print(f"{len(proof.passed)} proofs have passed already, {len(left)} to go", flush=True)
    failed: list[str] = []
    for start in range(0, len(left), BATCH):
        batch = left[start : start + BATCH]
        good, seconds, figures = run(batch, jobs)
        if good:
            proof.passed.update(dict.fromkeys(batch, seconds / len(batch)))
            proof.figures.update(figures)
            proof.save()
        else:
            failed += batch
        print(f"{start + len(batch)} of {len(left)}: {'passed' if good else 'FAILED'} in {seconds:.0f} s", flush=True)
    return failed


def write(proof: Proof, wanted: list[str]) -> None:
    """Write docs/proof.md: how many of the tests that are `wanted` have passed."""
    by_file: dict[str, list[float]] = {test.partition("::")[0]: [] for test in wanted}
    for test, seconds in proof.passed.items():
        by_file[test.partition("::")[0]].append(seconds)
    count = Counter(test.partition("::")[0] for test in wanted)
    lines = [
        "# The proof",
        "",
        "Written by `make prove`; every seed is in the name of its test, so that each line can be run again.",
        "",
        f"- date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- commit: {proof.commit}",
        f"- Python {platform.python_version()}, {os.cpu_count()} processors, {platform.system()} {platform.machine()}",
        f"- {len(proof.passed)} of {len(wanted)} proofs have passed{'; the others are yet to be run' if len(proof.passed) < len(wanted) else ''}",
        "",
        "| proofs | passed | of | minutes |",
        "|---|---|---|---|",
        *(f"| `{file}` | {len(times)} | {count[file]} | {sum(times) / 60:.1f} |" for file, times in sorted(by_file.items())),
    ]
    if proof.figures:
        measured = [(test.rpartition("::")[2], told) for test, told in sorted(proof.figures.items())]
        lines += ["", "## Figures", "", *(f"- `{test}`: {line}" for test, told in measured for line in told)]
    for title, command in REPORTS:
        lines += ["", f"## {title}", "", "```", output(*command).rstrip(), "```"]
    PROOF.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {PROOF.relative_to(ROOT)}")


def main() -> int:
    """Prove; exit code 0 only if everything passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--fresh", action="store_true", help="forget what has passed")
    parser.add_argument("--report", action="store_true", help="prove nothing, and write what has passed so far")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    proof = Proof(commit()) if options.fresh else taken_up(commit())
    if options.report:
        write(proof, collected())
        return 0
    failed = prove(options.jobs, proof)
    if failed:
        print("these failed, or stand beside one that did:", *failed, sep="\n  ")
        return 1
    write(proof, collected())
    return 0


if __name__ == "__main__":
    sys.exit(main())
