"""The command `fake-llm`, and a definition whose steps ask it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
SCRIPT = """
rules:
  - when: {contains: "Classify: It broke", model: gpt-4o-mini}
    answer: {json: {label: bug}}
"""
STEPS = """
perdure: 1
name: triage
input: {text: {type: string}}
steps:
  - {id: classify, llm: {model: small, prompt: "Classify: @{input.text}", schema: {label: {enum: [bug, question]}}}}
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "perdure.cli", *words]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(SOURCES))
    (tmp_path / "script.yaml").write_text(SCRIPT)
    (tmp_path / "triage.yaml").write_text(STEPS)
    return tmp_path


@pytest.fixture
def provider(place: Path) -> Iterator[str]:
    """What a provider says as it begins; it ends as Ctrl-C does it."""
    process = subprocess.Popen(command("fake-llm", "script.yaml", "--log", "log.jsonl"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = "".join(process.stdout.readline() for _ in range(11))
    yield said
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors.strip()) == (130, "")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="ends a process by a signal")
def test_it_prints_what_asks_it_and_answers_the_steps_of_a_definition(place: Path, provider: str) -> None:
    before, _, models = provider.partition("models.yaml:\n")
    assert before.startswith("listening on http://127.0.0.1:") and "  OPENAI_BASE_URL=http://127.0.0.1:" in before
    (place / "models.yaml").write_text(models)
    ran = subprocess.run(
        command("run", "triage.yaml", "-i", "text=It broke", "--models", "models.yaml"), capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {"label": "bug"}), ran.stderr
    (line,) = (place / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["request"]["messages"] == [{"role": "user", "content": "Classify: It broke"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fake-llm", "none.yaml"], "none.yaml can't be read: No such file or directory"),
        (["fake-llm", "triage.yaml"], "is not a list of rules, or {rules: […]}"),
        (["run", "triage.yaml", "-i", "text=x", "--models", "none.yaml"], "none.yaml can't be read"),
        (["run", "triage.yaml", "-i", "text=x", "--models", "script.yaml"], "rules"),
    ],
)
def test_what_is_no_script_or_no_models_is_told(place: Path, words: list[str], says: str) -> None:
    ran = subprocess.run(command(*words), capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 10 and says in ran.stderr, ran.stderr
