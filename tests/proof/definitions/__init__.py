"""Random definitions, and what must come of them: made by `generator`, predicted by `sequential`, compared by `comparing`."""

from tests.proof.definitions.comparison import differs
from tests.proof.definitions.facts import Decision, Facts, Message, Prediction, Ran, Runner, Script, Undone
from tests.proof.definitions.generator import GeneratedCase, random_case, random_definition
from tests.proof.definitions.prediction import Stuck, predict

__all__ = [
    "Decision",
    "Facts",
    "GeneratedCase",
    "Message",
    "Prediction",
    "Ran",
    "Runner",
    "Script",
    "Stuck",
    "Undone",
    "differs",
    "predict",
    "random_case",
    "random_definition",
]
