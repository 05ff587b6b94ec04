"""Scientific workflows run as definitions: every task once, never before its parents, within the bound; and clear words for bad files."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from examples import wfinstances
from perdure import Definition
from perdure.definitions.format.canonical_form import canonical_document
from perdure.definitions.format.compiler import compile_definition

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "examples/data/photo-mosaic.json"
BOUND_S = 2.0
"""How long a real workflow may take, about: long enough that a busy machine is less than the twentieth that may be lost."""
REAL = sorted((ROOT.parent / "shared/data/wfinstances").glob("*.json"))


def traced(parents: dict[str, list[str]], schema_version: str = "1.5") -> dict[str, Any]:
    """A small file in WfFormat."""
    specified = [{"id": task, "parents": names} for task, names in parents.items()]
    executed = [{"id": task, "runtimeInSeconds": 1.0} for task in parents]
    return {"schemaVersion": schema_version, "workflow": {"specification": {"tasks": specified}, "execution": {"tasks": executed}}}


def late_s(file: Path, scale: float, workers: int, db: str, references: bool = False) -> float:
    """Run a file: every task once, none before its parents have ended. Returns by how much it missed its bound."""
    tasks, pool = wfinstances.load(file, scale), wfinstances.Workers(workers)
    done: list[str] = []

    async def do(task: str, takes_s: float, parents: Sequence[str] = ()) -> str:
        done.append(task)
        return await pool.do(task, takes_s, parents)

    document = wfinstances.as_definition(tasks, file.stem, references)
    Definition.of(document, tools={"TASK": do}).with_(id=f"{file.stem}-{references}", db=db).run()
    assert sorted(done) == sorted(task.id for task in tasks)
    for task in tasks:
        assert all(pool.spans[parent][1] <= pool.spans[task.id][0] for parent in task.parents)
    return pool.makespan_s - wfinstances.bound_s(tasks, workers)


@pytest.mark.slow
@pytest.mark.parametrize("references", [False, True])
def test_every_task_is_done_once_and_behind_its_parents(tmp_path: Path, references: bool) -> None:
    late_s(SMALL, 0.002, 3, f"sqlite:///{tmp_path}/it.db", references)


@pytest.mark.slow
def test_the_program_says_how_long_it_took_and_goes_on_with_its_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(SMALL), "--scale", "0.001", "--workers", "4", "--db", f"sqlite:///{tmp_path}/it.db"]
    assert wfinstances.main(given) in (0, wfinstances.TOO_SLOW)  # with tasks of milliseconds, a busy machine is late
    tasks = len(json.loads(SMALL.read_bytes())["workflow"]["specification"]["tasks"])
    assert f"{tasks} tasks done by 4 workers; makespan" in capsys.readouterr().out
    assert wfinstances.main(given) == 0
    assert f"0 tasks done by 4 workers, {tasks} were done before" in capsys.readouterr().out


def test_a_task_needs_its_parents_or_reads_them_and_ids_are_its_own(tmp_path: Path) -> None:
    file = tmp_path / "it.json"
    file.write_text(json.dumps(traced({"a.b": [], "a b": ["a.b"], "1": ["a b", "a.b"]})))
    tasks = wfinstances.load(file, 1.0)
    needing, reading = (wfinstances.as_definition(tasks, "it", references) for references in (False, True))
    assert [(step["id"], step.get("needs", [])) for step in needing["steps"]] == [
        ("task_a_b", []),
        ("task_a_b_2", ["task_a_b"]),
        ("task_1", ["task_a_b_2", "task_a_b"]),
    ]
    edges = [{(edge.source, edge.target) for edge in compile_definition(canonical_document(document)).edges} for document in (needing, reading)]
    assert edges[0] == edges[1] == {(0, 1), (1, 2), (0, 2)}


def test_the_bound_is_that_of_list_scheduling() -> None:
    tasks = [wfinstances.Task("a", (), 4.0), wfinstances.Task("b", ("a",), 2.0), wfinstances.Task("c", (), 6.0)]
    assert wfinstances.bound_s(tasks, 2) == pytest.approx(1.05 * (12 / 2 + 0.5 * 6) + 0.015)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (traced({"a": ["b"]}), "'b' is a parent, but no task"),
        (traced({"a": ["b"], "b": ["a"]}), "in a circle"),
        (traced({"a": []}, "1.4"), "is in WfFormat 1.4"),
        ([], "is not WfFormat 1.5"),
        ({"schemaVersion": "1.5"}, "is not WfFormat 1.5 (KeyError"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], document: Any, says: str) -> None:
    (tmp_path / "it.json").write_text(json.dumps(document))
    assert wfinstances.main([str(tmp_path / "it.json")]) == wfinstances.BAD_INPUT
    assert says in capsys.readouterr().err
    assert wfinstances.main([str(tmp_path / "none.json")]) == wfinstances.BAD_INPUT


@pytest.mark.real
@pytest.mark.skipif(not REAL, reason="there are no input files beside the project")
def test_each_real_workflow_keeps_its_bound(tmp_path: Path) -> None:
    assert len(REAL) == 9
    for file in REAL:
        scale = BOUND_S / wfinstances.bound_s(wfinstances.load(file, 1.0), 8)
        tries = (late_s(file, scale, 8, f"sqlite:///{tmp_path}/{number}.db") for number in range(3))  # others may use the machine too
        assert any(late <= 0 for late in tries), file.name


def killed(file: Path, directory: Path, kills: int) -> list[str]:
    """Run a file in processes that are killed, so many times, and then to its end; return what its tasks have written."""
    ledger, scale = directory / "ledger", 1.0 / wfinstances.bound_s(wfinstances.load(file, 1.0), 8)
    command = [sys.executable, "-m", "tests.examples.killed_workflow", str(file), str(scale), str(directory / "it.db"), str(ledger)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    for number in range(kills):
        before = ledger.stat().st_size if ledger.exists() else 0
        process = subprocess.Popen(command, cwd=ROOT, env=environment)
        while process.poll() is None and (ledger.stat().st_size if ledger.exists() else 0) <= before + 20 * number:
            time.sleep(0.005)
        process.kill()
        process.wait()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=120)
    return ledger.read_text(encoding="utf-8").splitlines()


def check_killed(file: Path, directory: Path, kills: int) -> None:
    """Every task is done; none begins before its parents have ended; again is done only what a kill interrupted."""
    tasks, done = wfinstances.load(file, 1.0), killed(file, directory, kills)
    ended = Counter(line.removeprefix("ended ") for line in done if line.startswith("ended "))
    began = Counter(line.removeprefix("began ") for line in done if line.startswith("began "))
    assert set(ended) == {task.id for task in tasks}
    for task in tasks:
        first = done.index(f"began {task.id}")
        assert all(done.index(f"ended {parent}") < first for parent in task.parents), task.id
    assert began.total() - len(tasks) <= 8 * kills, "what had settled was done again"


@pytest.mark.prove
def test_killed_in_the_middle_it_goes_on(tmp_path: Path) -> None:
    check_killed(SMALL, tmp_path, 2)


@pytest.mark.real
@pytest.mark.skipif(not REAL, reason="there are no input files beside the project")
@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_each_real_workflow_goes_on_when_it_is_killed(file: Path, tmp_path: Path) -> None:
    check_killed(file, tmp_path, 4)
