"""Random definitions, and what must come of them: made by `generator`, predicted by `sequential`, compared by `comparing`."""

from perdure.testing.definitions.comparing import differs
from perdure.testing.definitions.facts import Decision, Facts, Message, Prediction, Ran, Runner, Script, Undone
from perdure.testing.definitions.generator import Case, random_case, random_definition
from perdure.testing.definitions.sequential import Stuck, predict

__all__ = [
    "Case",
    "Decision",
    "Facts",
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
