"""Runs the long proofs within a time, and writes what became of them to docs/proof.md.

    python -m tools.prove [--minutes N] [--jobs N] [--fresh] [--report]

What has passed on the same `src/` and the same test file is not run again, so a proof that was stopped, or had no time for everything, is taken
up by the next one. Tests are run in turn, one of each function and then the next, so what is left when the time is up are further seeds.
"""

import argparse
import hashlib
import heapq
import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tools import mutation_sample, proof_page
from tools.source_hash import ROOT, source_hash

STATE = ROOT / ".prove.json"
PROOFS = "prove or (hypothesis and not real)"
"""Which tests are run: those marked as proofs, and every property, with more examples than in each run of the tests (tests/conftest.py)."""

UNKNOWN_S, ONE_OF_MANY_S = 3.0, 0.5
"""What a test is taken to last that has never been run; and one of those that differ in their parameters."""

MUTATION_SHARE, REPORTS_SHARE, HANGING_SHARE = 0.15, 0.05, 0.1
"""Of the time: for the mutation sample, for the reports, and for a last test that hangs until it is killed."""

MUTANTS = 200
REPORTS = [
    ("Crashes a minute", ["-m", "tests.proof.simulator", "--worlds", "200", "--seed", "1"]),
    ("Crashes a minute, of definitions", ["-m", "tests.proof.simulator", "--definitions", "--worlds", "40", "--seed", "1"]),
    ("Crashes a minute, in files", ["-m", "tests.proof.simulator", "--worlds", "100", "--seed", "1", "--store", "sqlite"]),
    ("Cost of a step", ["bench/steps.py"]),
]


@dataclass
class Result:
    """What became of a test: on which source and test file, whether it passed, failed or was skipped, its seconds, why it failed, and its figures."""

    key: str
    outcome: str
    seconds: float
    why: str = ""
    figures: list[str] = field(default_factory=list)


@dataclass
class State:
    """The last result of each test, and the report on the mutation sample of a source."""

    results: dict[str, Result] = field(default_factory=dict)
    mutation: dict[str, list[str]] = field(default_factory=dict)

    def save(self) -> None:
        """Keep it for the next proof."""
        STATE.write_text(json.dumps(asdict(self), indent=1))


def kept() -> State:
    """What earlier proofs have found."""
    found = json.loads(STATE.read_text()) if STATE.exists() else {}
    if "results" not in found:
        return State()
    return State({test: Result(**result) for test, result in found["results"].items()}, found["mutation"])


def key_of(test: str, source: str) -> str:
    """What a result depends on: the source, and the file of the test."""
    return f"{source}-{hashlib.sha256((ROOT / test.partition('::')[0]).read_bytes()).hexdigest()[:12]}"


def collected() -> list[str]:
    """The ids of all proofs.

    Raises:
        subprocess.CalledProcessError: the tests cannot be collected.
    """
    command = [sys.executable, "-m", "pytest", "-m", PROOFS, "--collect-only", "-q", "-p", "no:cacheprovider"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if "::" in line]


def known(state: State, tests: list[str], source: str) -> dict[str, Result]:
    """The results that these tests have on this source, with their files as they are."""
    return {test: state.results[test] for test in tests if test in state.results and state.results[test].key == key_of(test, source)}


def in_turn(tests: list[str], seconds: dict[str, float]) -> list[str]:
    """The tests in the order in which they are run: always the next of the function that has had the least time so far."""
    by_function: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_function[test.partition("[")[0]].append(test)
    heap = [(0.0, number, iter(of_function)) for number, of_function in enumerate(by_function.values())]
    order: list[str] = []
    while heap:
        spent_s, number, rest = heapq.heappop(heap)
        for test in itertools.islice(rest, 1):
            order.append(test)
            heapq.heappush(heap, (spent_s + seconds[test], number, rest))
    return order


def expected_s(tests: list[str], results: dict[str, Result]) -> dict[str, float]:
    """How long each test will take: as long as it took, or as others of its function did."""
    of_function: dict[str, list[float]] = defaultdict(list)
    for test, result in results.items():
        of_function[test.partition("[")[0]].append(result.seconds)
    means = {function: sum(times) / len(times) for function, times in of_function.items()}
    return {test: results[test].seconds if test in results else means.get(test.partition("[")[0], _guess_s(test)) for test in tests}


def _guess_s(test: str) -> float:
    return ONE_OF_MANY_S if "[" in test else UNKNOWN_S


def run(order: list[str], state: State, source: str, jobs: int, limit_s: float) -> None:
    """Run tests in this order as long as there is time, and keep each result.

    Raises:
        OSError: pytest could not be begun.
    """
    with tempfile.TemporaryDirectory() as directory:
        files = {name: Path(directory, name) for name in ("order", "results", "figures")}
        for file in files.values():
            file.touch()
        files["order"].write_text(json.dumps(order))
        environment = {
            **os.environ,
            "PERDURE_PROVE_ORDER": str(files["order"]),
            "PERDURE_PROVE_RESULTS": str(files["results"]),
            "PERDURE_PROVE_UNTIL": str(time.time() + limit_s),
            "PERDURE_FIGURES": str(files["figures"]),
        }
        options = [
            "-q",
            "-m",
            PROOFS,
            "--hypothesis-profile",
            "long",
            "-p",
            "no:cacheprovider",
            "-p",
            "tools.prove_plugin",
            "-n",
            str(jobs),
            "--maxschedchunk",
            "1",
        ]
        command = [sys.executable, "-m", "pytest", *options, *dict.fromkeys(test.partition("::")[0] for test in order)]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
        try:
            process.wait(limit_s * (1 + HANGING_SHARE))
        except subprocess.TimeoutExpired:
            print("prove: a test did not end in time and was killed; it has no result", flush=True)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            _keep(files, state, source)


def _keep(files: dict[str, Path], state: State, source: str) -> None:
    """Put the results and figures that were written into the state."""
    for line in map(json.loads, files["results"].read_text().splitlines()):
        state.results[line["test"]] = Result(key_of(line["test"], source), line["outcome"], line["seconds"], line["why"])
    for line in map(json.loads, files["figures"].read_text().splitlines()):
        if line["test"] in state.results:
            state.results[line["test"]].figures.append(line["figures"])
    state.save()


def page(tests: list[str], state: State, source: str) -> str:
    """What docs/proof.md says of the tests that there are."""
    found = known(state, tests, source)
    outcomes = Counter(result.outcome for result in found.values())
    passed, failing, skipped = outcomes["passed"], outcomes["failed"], outcomes["skipped"]
    counted = f"{passed} have passed, {failing} failed, {skipped} cannot be run here, and {len(tests) - len(found)} are still to be run"
    lines = [
        proof_page.title(source, source),
        "",
        "Written by `make prove`. The hash is git's for the tree `src` (`git rev-parse HEAD:src`); the first line says so when another is there now.",
        "Every seed is in the name of its test, so each line can be run again.",
        "",
        f"- date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        f"- Python {platform.python_version()}, {os.cpu_count()} processors, {platform.system()} {platform.machine()}",
        f"- of {len(tests)} proofs {counted}",
        "",
        "| proofs | of | passed | failed | skipped | minutes |",
        "|---|---|---|---|---|---|",
    ]
    for file in dict.fromkeys(test.partition("::")[0] for test in tests):
        of_file = [result for test, result in found.items() if test.partition("::")[0] == file]
        counts = Counter(result.outcome for result in of_file)
        wanted = sum(test.partition("::")[0] == file for test in tests)
        minutes = sum(result.seconds for result in of_file) / 60
        lines.append(f"| `{file}` | {wanted} | {counts['passed']} | {counts['failed']} | {counts['skipped']} | {minutes:.1f} |")
    if failed := [test for test, result in found.items() if result.outcome == "failed"]:
        lines += ["", "## Failed", "", *(f"- `{test}`" for test in failed)]
    if figures := [f"- `{test.rpartition('::')[2]}`: {line}" for test, result in sorted(found.items()) for line in result.figures]:
        lines += ["", "## Figures", "", *figures]
    lines += ["", "## Small changes of the source", "", *state.mutation.get(source, ["No time yet."])]
    for heading, arguments in REPORTS:
        lines += ["", f"## {heading}", "", "```", _output(arguments), "```"]
    return "\n".join(lines) + "\n"


def _output(arguments: list[str]) -> str:
    """What a program prints; that it failed, if it did."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    return done.stdout.rstrip() if done.returncode == 0 else f"FAILED with exit code {done.returncode}\n{(done.stdout + done.stderr).rstrip()[-2000:]}"


def prove(state: State, tests: list[str], source: str, jobs: int, minutes: float) -> None:
    """Print the plan, run what has not passed yet, and judge the mutation sample, all within the time."""
    begun_s = time.monotonic()
    done = {test for test, result in known(state, tests, source).items() if result.outcome != "failed"}
    left = [test for test in tests if test not in done]
    seconds = expected_s(left, state.results)
    for_tests_s = 60 * minutes * (1 - MUTATION_SHARE - REPORTS_SHARE) / (1 + HANGING_SHARE)
    print(
        f"prove: src {source}: {len(tests)} proofs, {len(tests) - len(left)} known, {len(left)} to run, about {sum(seconds.values()) / 60 / jobs:.0f} minutes "
        f"with {jobs} jobs; of {minutes:g} minutes {for_tests_s / 60:.0f} are for them, {minutes * MUTATION_SHARE:.0f} for {MUTANTS} changes of the source",
        flush=True,
    )
    if left:
        run(in_turn(left, seconds), state, source, jobs, for_tests_s)
    if source not in state.mutation:
        until_s = begun_s + 60 * minutes * (1 - REPORTS_SHARE) - mutation_sample.LIMIT_S
        seed = int(source, 16) % 10_000
        verdicts = mutation_sample.judge_all(mutation_sample.sample(seed, MUTANTS, mutation_sample.modules()), jobs, until_s)
        if verdicts:
            state.mutation = {source: mutation_sample.report(verdicts, seed)}
            state.save()


def main() -> int:
    """Prove; exit code 0 only if nothing failed."""
    parser = argparse.ArgumentParser(description="Run the long proofs and write docs/proof.md.")
    parser.add_argument("--fresh", action="store_true", help="forget what has passed")
    parser.add_argument("--report", action="store_true", help="run no proof, and write how far they are")
    parser.add_argument("--minutes", type=float, default=100.0, help="how long it may take")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    given = parser.parse_args()
    state, source, tests = State() if given.fresh else kept(), source_hash(), collected()
    if not given.report:
        prove(state, tests, source, given.jobs, given.minutes)
    if source_hash() != source:
        print("prove: src has changed meanwhile, so the results are of no source in particular; run it again", file=sys.stderr)
        return 1
    proof_page.PAGE.write_text(page(tests, state, source), encoding="utf-8")
    failed = [test for test, result in known(state, tests, source).items() if result.outcome == "failed"]
    for test in failed:
        print(f"\nprove: {test}\n{state.results[test].why}")
    print(f"prove: written to {proof_page.PAGE.relative_to(ROOT)}; {len(failed)} failed", *failed, sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
