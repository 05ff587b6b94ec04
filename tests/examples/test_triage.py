"""The triage: which way each ticket goes, what the agent is told on the way, and that a refund waits for a person."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.fake_llm import load, models_yaml, serving_aside

EXAMPLES = Path(__file__).parents[2] / "examples"


class TriageDirectory:
    """A shell in a directory of its own, and a scripted model."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        (directory / "models.yaml").write_text(models_yaml(url), encoding="utf-8")

    def perdure(self, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "perdure.cli", "--db", f"sqlite:///{self.directory}/perdure.db", *words]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=60, check=False)

    def triages(self, ticket: str, *more: str) -> "subprocess.CompletedProcess[str]":
        given = ("--tools", str(EXAMPLES / "triage_tools.py"), "--models", "models.yaml", "-i", f"ticket={ticket}", "--id", ticket)
        return self.perdure("run", str(EXAMPLES / "triage.yaml"), *given, *more)


@pytest.fixture
def triage_directory(tmp_path: Path) -> Iterator[TriageDirectory]:
    with serving_aside(load(EXAMPLES / "triage_script.yaml")) as url:
        yield TriageDirectory(tmp_path, url)


def told(ended: "subprocess.CompletedProcess[str]") -> list[str]:
    return [line for line in ended.stderr.splitlines() if line.split()[0] in ("refund", "bug", "answer")]


@pytest.mark.prove
def test_a_ticket_about_money_waits_for_a_person_and_then_the_money_goes_back(triage_directory: TriageDirectory) -> None:
    asked = triage_directory.triages("T-1041", "--no-wait")
    assert (asked.returncode, told(asked)) == (31, []), asked.stderr
    assert triage_directory.perdure("resume", "T-1041", "--decision", "approve", "--as", "ada").returncode == 0
    ended = triage_directory.triages("T-1041")
    assert told(ended) == ["refund o-5521", "answer to T-1041: The kettle was charged twice. (refund-o-5521)"]
    assert json.loads(ended.stdout) == {"ticket": "T-1041", "went_to": ["approve_refund"], "urgency": "high", "calls": 3}


@pytest.mark.slow
def test_a_way_that_there_is_not_is_mended_and_the_bug_is_filed(triage_directory: TriageDirectory) -> None:
    ended = triage_directory.triages("T-1042")
    assert told(ended)[0] == "bug of T-1042 (high): The app closes when the basket is opened.", ended.stderr
    assert json.loads(ended.stdout)["went_to"] == ["engineering"]


@pytest.mark.prove
def test_an_answer_that_leads_nowhere_in_particular_is_sent(triage_directory: TriageDirectory) -> None:
    ended = triage_directory.triages("T-1043")
    assert told(ended) == ["answer to T-1043: The K2 takes filter F2, changed every eight weeks. (an answer)"], ended.stderr
    assert json.loads(ended.stdout) == {"ticket": "T-1043", "went_to": [], "urgency": "low", "calls": 2}
