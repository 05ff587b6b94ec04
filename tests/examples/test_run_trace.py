"""Traces run as workflows: every task once and never before its parents, through any number of kills; and clear words for bad files."""

import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from examples import run_trace as trace
from perdure import Key
from perdure.core import events, log_format
from perdure.stores.configured_store import open_store

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "examples/data/photo-mosaic.json"
REAL = sorted((ROOT.parent / "shared/data/wfinstances").glob("*.json"))

BOUND_FACTOR, TASK_S_MAX = 1.05, 0.005
"""How much longer than the bound a makespan may be: by this factor, and by this for each task."""

RUNS_MAX = 3
"""The machine may be shared: a run that was too slow is run anew, so often in all."""

CLOCK_S = 0.01
"""How far a sum of times measured by the wall clock may be off."""

RUN_S_MAX = 60.0


@dataclass(frozen=True)
class TaskEffect:
    """A line of the effect file."""

    event: str
    task: str
    process: str
    at_s: float


@dataclass(frozen=True)
class Remembered:
    """What the log knew at some point, and how long the effect file was then."""

    settled: Counter[str]
    in_flight: frozenset[str]
    effects: int


class TraceRun:
    """A trace with its history in a directory."""

    def __init__(self, file: Path, directory: Path, takes_s: float, at_once: int | None = None) -> None:
        """Tasks that take `takes_s` by the bound; without `at_once`, that is to say on the critical path."""
        self.id = file.stem
        recorded = trace.load(file)
        self.at_once = at_once or len(recorded)
        whole_s = trace.critical_path_s(recorded) if at_once is None else trace.bound_s(recorded, at_once)
        self.tasks, self.scale = trace.scaled(recorded, takes_s / whole_s)
        self.critical_path_s = trace.critical_path_s(self.tasks)
        self.url = f"sqlite:///{directory}/perdure.db"
        self.effect_file = directory / f"trace-{self.id}.effects"
        options = ["--scale", repr(self.scale), *([] if at_once is None else ["--at-once", str(at_once)])]
        self._command = [sys.executable, str(ROOT / "examples/run_trace.py"), str(file), *options, "--db", self.url]

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[str]]:
        """A process that runs it, killed at the end of the block if it is still there."""
        with subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def finish(self) -> list[str]:
        """Run it to its end; return the lines that it printed."""
        with self.process() as process:
            out, _ = process.communicate(timeout=RUN_S_MAX)
        assert process.returncode == 0, out
        return [line.partition(" ms  ")[2] for line in out.splitlines()]

    def kill(self, lines: int, later_s: float = 0.0) -> Remembered:
        """Run it, and kill it `later_s` after the effect file has come to have so many lines; return what the log knows then."""
        with self.process() as process:
            give_up_s = time.monotonic() + RUN_S_MAX
            while process.poll() is None and len(self.effects()) < lines:
                assert time.monotonic() < give_up_s, "it never came to the point where it was to be killed"
                time.sleep(0.002)
            time.sleep(later_s)
        assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
        return self.remembered()

    def effects(self) -> list[TaskEffect]:
        """The whole lines of the effect file but its first; a kill may have cut one short."""
        lines = self.effect_file.read_text().split("\n")[1:] if self.effect_file.exists() else []
        return [TaskEffect(**json.loads(line)) for line in lines if line.endswith("}")]

    def remembered(self) -> Remembered:
        opened, settled = set[str](), Counter[str]()
        for event in asyncio.run(self._log()):
            match event:
                case events.OpenedEvent(path=((str(task), 1),)):
                    opened.add(task)
                case events.SettledEvent(path=((str(task), 1),)):
                    settled[task] += 1
        return Remembered(settled, frozenset(opened - settled.keys()), len(self.effects()))

    async def _log(self) -> list[events.Event]:
        store = open_store(self.url)
        try:
            found = await store.read(Key("default", "trace", self.id))
        finally:
            await store.close()
        return [] if found is None else log_format.decode_rows(found.payloads)

    def check(self, kills: list[Remembered]) -> None:
        """Every task settled once, none that had settled began again, those in flight did, and all kept to their order."""
        effects, names = self.effects(), {task.id for task in self.tasks}
        assert self.remembered().settled == Counter(names)
        bounds = [0, *(kill.effects for kill in kills), len(effects)]
        settled = set[str]()
        for number, kill in enumerate(kills):
            began = Counter(effect.task for effect in effects[bounds[number] : bounds[number + 1]] if effect.event == "began")
            assert not settled & began.keys(), "a task that had settled ran again"
            assert set(began.values()) <= {1}, "a task ran twice in one process"
            assert settled <= kill.settled.keys(), "the log has lost something"
            settled = set(kill.settled)
        began = Counter(effect.task for effect in effects[bounds[-2] :] if effect.event == "began")
        assert began == Counter(names - settled), "what had not settled did not run exactly once"
        self._check_order(effects)

    def _check_order(self, effects: list[TaskEffect]) -> None:
        ended = set[str]()
        parents = {task.id: task.parents for task in self.tasks}
        running = set[tuple[str, str]]()
        for effect in effects:
            if effect.event == "ended":
                ended.add(effect.task)
                running.discard((effect.process, effect.task))
            else:
                running = {one for one in running if one[0] == effect.process} | {(effect.process, effect.task)}
            assert ended.issuperset(parents[effect.task]), f"{effect.task} began before its parents had ended"
            assert len(running) <= self.at_once, f"{effect.task} began while {self.at_once} were running"
        assert ended == parents.keys()

    def in_time(self, lines: list[str], names: set[str]) -> bool:
        """Whether the last process, which ran the tasks `names`, took no longer for them than it may; in `lines` it has said how long."""
        last = self.effects()[-1].process
        times_s = [effect.at_s for effect in self.effects() if effect.process == last]
        took_s, ran = max(times_s) - min(times_s), [task for task in self.tasks if task.id in names]
        bound_s = trace.bound_s(ran, self.at_once)
        assert f"took {took_s:.2f} s, at most {self.at_once} at once, for which W/m + (1 − 1/m)·L is {bound_s:.2f} s" in lines[-1]
        assert took_s >= trace.critical_path_s(ran) - CLOCK_S
        return took_s <= BOUND_FACTOR * bound_s + TASK_S_MAX * len(ran)


# The shipped trace.


@pytest.mark.slow
def test_every_task_runs_once_and_never_before_its_parents(tmp_path: Path) -> None:
    traced = TraceRun(SMALL, tmp_path, 0.3)
    lines = traced.finish()
    traced.check([])
    assert len(traced.effects()) == 2 * len(traced.tasks) == 26
    assert lines[0] == "started unpack" and lines[-2] == "ended publish (13 of 13)"
    assert lines[-1].endswith("0 remembered from before, 13 ran now")


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2])
def test_no_more_tasks_run_at_once_than_may(at_once: int, tmp_path: Path) -> None:
    traced = TraceRun(SMALL, tmp_path, 0.3, at_once)
    lines = traced.finish()
    traced.check([])
    assert f"at most {at_once} at once" in lines[-1]


@pytest.mark.slow
def test_started_again_after_its_end_it_runs_nothing(tmp_path: Path) -> None:
    traced = TraceRun(SMALL, tmp_path, 0.0)
    traced.finish()
    effects = traced.effects()
    (line,) = traced.finish()
    assert line.endswith("13 remembered from before, 0 ran now")
    assert traced.effects() == effects


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_and_nothing_settled_runs_twice(tmp_path: Path) -> None:
    traced = TraceRun(SMALL, tmp_path, 0.8)
    kill = traced.kill(lines=12)
    assert kill.settled and kill.in_flight
    lines = traced.finish()
    traced.check([kill])
    assert lines[-1].endswith(f"{len(kill.settled)} remembered from before, {13 - len(kill.settled)} ran now")
    assert all(f"started {task}, try 2" in lines for task in kill.in_flight)


@pytest.mark.slow
def test_a_line_of_the_effect_file_that_a_kill_cut_short_spoils_no_other(tmp_path: Path) -> None:
    traced = TraceRun(SMALL, tmp_path, 0.0)
    witness = trace.Witness()
    witness.bind(traced.effect_file, traced.tasks, traced.scale, traced.at_once)
    with traced.effect_file.open("a") as file:
        file.write('{"event":"beg')
    traced.finish()
    traced.check([])


@pytest.mark.slow
def test_a_database_may_be_moved_between_two_runs(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    kill = TraceRun(SMALL, before, 0.5).kill(lines=6)
    before.rename(after)
    traced = TraceRun(SMALL, after, 0.5)
    traced.finish()
    traced.check([kill])
    assert not before.exists()


@pytest.mark.slow
def test_started_again_while_it_runs_it_waits_for_the_same_end_and_runs_nothing(tmp_path: Path) -> None:
    traced = TraceRun(SMALL, tmp_path, 1.0)
    with traced.process() as first:
        while not traced.effects():
            time.sleep(0.01)
        (*_, second) = traced.finish()
        out, _ = first.communicate(timeout=RUN_S_MAX)
    assert second.endswith("13 remembered from before, 0 ran now") and "0 remembered from before, 13 ran now" in out
    traced.check([])


# What can't be run.


def document(tasks: dict[str, list[str]], **changes: Any) -> dict[str, Any]:
    """A trace of these tasks with their parents."""
    specified = [{"id": task, "parents": parents} for task, parents in tasks.items()]
    executed = [{"id": task, "runtimeInSeconds": 1.5} for task in tasks]
    return {"schemaVersion": "1.5", "workflow": {"specification": {"tasks": specified}, "execution": {"tasks": executed}}} | changes


def without_run_times() -> dict[str, Any]:
    found = document({"a": []})
    found["workflow"]["execution"]["tasks"] = []
    return found


def with_negative_run_time() -> dict[str, Any]:
    found = document({"a": []})
    found["workflow"]["execution"]["tasks"][0]["runtimeInSeconds"] = -1
    return found


def with_the_same_id_twice() -> dict[str, Any]:
    found = document({"a": []})
    found["workflow"]["specification"]["tasks"] *= 2
    return found


BAD = {
    "not JSON": (b"name: trace", "is not JSON"),
    "empty": (b"", "is not JSON"),
    "not UTF-8": (b'{"schemaVersion": "\xff"}', "is not JSON"),
    "cut short": (SMALL.read_bytes()[:500], "is not JSON"),
    "a list": (b"[]", "is not WfFormat 1.5"),
    "no version": (b"{}", "is not WfFormat 1.5"),
    "another version": (document({"a": []}, schemaVersion="1.4"), "is in WfFormat 1.4"),
    "no workflow": (b'{"schemaVersion": "1.5"}', "`workflow`"),
    "no tasks": (document({}), "has no tasks"),
    "no run times": (without_run_times(), "task a has no run time"),
    "a negative run time": (with_negative_run_time(), "is not WfFormat 1.5"),
    "an unknown parent": (document({"a": [], "b": ["a", "c"]}), "task b has a parent 'c'"),
    "a circle": (document({"a": ["c"], "b": ["a"], "c": ["b"]}), "in a circle"),
    "its own parent": (document({"a": ["a"]}), "in a circle (a -> a)"),
    "an id twice": (with_the_same_id_twice(), "of the same id"),
    "no name": (document({"": []}), "is not WfFormat 1.5"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_trace_is_refused_in_one_sentence(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, said = BAD[name]
    file = tmp_path / "bad.json"
    file.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    refused([str(file)], said, tmp_path, capsys)


def test_a_missing_file_is_refused_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused([str(tmp_path / "missing.json")], "can't be read (No such file or directory)", tmp_path, capsys)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scale", "-1"], "no number from 0"),
        (["--scale", "nan"], "no number from 0"),
        (["--at-once", "0"], "no number from 1"),
        (["--id", "a/b"], "can't be part of a file name"),
        (["--id", ""], "can't be part of a file name"),
        (["--db", "postgresql://host/name"], "is no SQLite file"),
        (["--db", "memory:"], "is no SQLite file"),
        (["--db", "sqlite:////dev/null/perdure.db"], "can't be written"),
    ],
)
def test_options_without_meaning_are_refused(options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused([str(SMALL), *options], said, tmp_path, capsys)


@pytest.mark.slow
def test_an_id_goes_on_only_with_what_it_began_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TraceRun(SMALL, tmp_path, 0.0).finish()
    refused([str(SMALL), "--scale", "2"], "choose another --id", tmp_path, capsys)
    refused([str(SMALL), "--scale", "0", "--at-once", "2"], "choose another --id", tmp_path, capsys)


def refused(arguments: list[str], said: str, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It exits with 10 and one line that says so."""
    at = [] if "--db" in arguments else ["--db", f"sqlite:///{directory}/perdure.db"]
    assert trace.main([*arguments, *at]) == 10
    printed = capsys.readouterr()
    assert said in printed.err and printed.err.count("\n") == 1 and not printed.out


# Real traces.


def undisturbed_in_time(traced: TraceRun) -> bool:
    lines = traced.finish()
    traced.check([])
    assert len(traced.effects()) == 2 * len(traced.tasks)
    return traced.in_time(lines, {task.id for task in traced.tasks})


def resumed_in_time(traced: TraceRun) -> bool:
    kill = traced.kill(lines=len(traced.tasks))
    lines = traced.finish()
    traced.check([kill])
    return traced.in_time(lines, {task.id for task in traced.tasks} - kill.settled.keys())


@pytest.mark.real
@pytest.mark.skipif(not REAL, reason="the traces are not at hand")
@pytest.mark.parametrize("at_once", [4, None], ids=["4 at once", "all at once"])
@pytest.mark.parametrize("run", [undisturbed_in_time, resumed_in_time])
@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_a_real_trace_runs_every_task_once_in_order_and_in_time(file: Path, run: Callable[[TraceRun], bool], at_once: int | None, tmp_path: Path) -> None:
    assert any(run(TraceRun(file, tmp_path / str(number), 2.0, at_once)) for number in range(RUNS_MAX))


@pytest.mark.real
def test_what_the_story_of_a_trace_claims_is_true() -> None:
    said = subprocess.run([sys.executable, ROOT / "examples/trace_demo.py"], capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    assert (said.returncode, said.stderr) == (0, ""), said.stdout + said.stderr
    assert "All of it was true" in said.stdout and "NOT TRUE" not in said.stdout


@pytest.mark.real
@pytest.mark.skipif(not REAL, reason="the traces are not at hand")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stem", ["montage", "1000genome", "blast"])
def test_a_real_trace_survives_kills_at_random_moments(stem: str, seed: int, tmp_path: Path) -> None:
    (file,) = (file for file in REAL if file.stem.startswith(stem))
    traced = TraceRun(file, tmp_path, 1.0)
    moments = random.Random(f"{stem} {seed}")
    kills: list[Remembered] = []
    for _ in range(5):
        lines = len(traced.effects()) + moments.randrange(1, len(traced.tasks) // 4)
        kills.append(traced.kill(lines, later_s=moments.uniform(0, 0.3)))
    traced.finish()
    traced.check(kills)
