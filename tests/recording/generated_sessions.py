"""Generates recorded tool-call sessions with known truth, by which the reconstruction of references is judged.

Two sets are frozen by their seeds and by a hash: one for development, and one held out for the final measurement. Neither may be changed to improve a result.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from tests.recording.business_scenarios import BUSINESS
from tests.recording.engineering_scenarios import ENGINEERING
from tests.recording.literal_copies import ReferencedSession, literal_copies, with_references
from tests.recording.session_score import Found, Score, score, total
from tests.recording.session_truth import Constant, GeneratedSession, Invented, RecordedCall, Reference, Target, Truth
from tests.recording.session_values import Values

__all__ = [
    "DEVELOPMENT_SEEDS",
    "DEVELOPMENT_SHA256",
    "HELD_OUT_SEEDS",
    "HELD_OUT_SHA256",
    "SCENARIOS",
    "Constant",
    "Found",
    "GeneratedSession",
    "Invented",
    "RecordedCall",
    "Reference",
    "ReferencedSession",
    "Score",
    "Target",
    "Truth",
    "generate",
    "generated",
    "literal_copies",
    "score",
    "serialized",
    "sha256",
    "total",
    "with_references",
]

SCENARIOS = (*BUSINESS, *ENGINEERING)
"""The families of sessions; each is a function of random values."""

DEVELOPMENT_SEEDS = range(10_000, 10_400)
"""The set on which a matcher may be developed."""

HELD_OUT_SEEDS = range(20_000, 20_400)
"""The set on which a matcher is judged, and that its developer does not look at."""

DEVELOPMENT_SHA256 = "ca6fdf1887b15e0330a0480e3d5bc4cb72fea2576edf504d2f50a74468bc4038"
HELD_OUT_SHA256 = "22b500ec01dcc60c386cb0c7030bc5ee731fd53e22f67e0b5ad87cf3f3695c0b"


def generate(seed: int) -> GeneratedSession:
    """The session of a seed: the families take turns."""
    made: GeneratedSession = SCENARIOS[seed % len(SCENARIOS)](Values(seed)).session()
    return made


def generated(seeds: Iterable[int]) -> list[GeneratedSession]:
    """The sessions of several seeds."""
    return [generate(seed) for seed in seeds]


def serialized(session: GeneratedSession) -> str:
    """A session and its truth as JSON in one line."""
    calls = [call._asdict() for call in session.calls]
    return json.dumps({"input": session.input, "calls": calls, "truth": [_truth(truth) for truth in session.truth]}, ensure_ascii=False)


def sha256(sessions: Iterable[GeneratedSession]) -> str:
    """The SHA-256 of sessions, one a line."""
    return hashlib.sha256("\n".join(map(serialized, sessions)).encode()).hexdigest()


def _truth(truth: Truth) -> dict[str, Any]:
    found: dict[str, Any] = {"call": truth.call, "path": truth.path, "span": truth.span, "kind": truth.origin.kind}
    if isinstance(truth.origin, Reference):
        found["required"] = truth.origin.required
        found["acceptable"] = _targets(truth.origin.acceptable)
        found["parts"] = [[path, _targets(targets)] for path, targets in truth.origin.parts]
    return found


def _targets(targets: Iterable[Target]) -> list[Any]:
    return sorted(([target.step, target.path] for target in targets), key=json.dumps)
