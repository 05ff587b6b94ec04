"""Random definitions, and what must come of them: made by `generator`, predicted by `sequential`, compared by `comparing`."""

from tests.proof.definitions.comparison import differs
from tests.proof.definitions.facts import Decision, DefinitionPrediction, Facts, OutsideEvents, Ran, Runner, ScheduledMessage, Undone
from tests.proof.definitions.generator import GeneratedCase, random_case, random_definition
from tests.proof.definitions.prediction import DefinitionStuck, predict

__all__ = [
    "Decision",
    "DefinitionPrediction",
    "DefinitionStuck",
    "Facts",
    "GeneratedCase",
    "OutsideEvents",
    "Ran",
    "Runner",
    "ScheduledMessage",
    "Undone",
    "differs",
    "predict",
    "random_case",
    "random_definition",
]
