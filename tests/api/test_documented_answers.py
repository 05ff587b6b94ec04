"""Claims about the OpenAPI document: whatever is asked, each answer has a status, a media type and a shape that it describes."""

from pathlib import Path

import pytest

from perdure.recording import recording_requests
from tests.api.api_setup import Answer, api_in_process
from tests.api.documented_requests import AnswerCheck, complaints

SEEDS = range(20)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request for a recording, which no process here runs, is over soon."""
    monkeypatch.setattr(recording_requests, "PATIENCE_S", 0.1)


async def wrong_answers(directory: Path, seed: int, count: int) -> str:
    async with api_in_process(directory) as api:
        return "\n".join(f"seed {seed}, {request.operation}: {request}\n    {wrong}" for request, wrong in await complaints(api, seed, count))


@pytest.mark.slow
async def test_answers_are_as_the_document_says(tmp_path: Path) -> None:
    assert await wrong_answers(tmp_path, 0, 1) == ""


@pytest.mark.prove
@pytest.mark.parametrize("seed", SEEDS)
async def test_no_request_has_an_answer_that_is_not_described(tmp_path: Path, seed: int) -> None:
    assert await wrong_answers(tmp_path, seed + 1, 15) == ""


DOCUMENT = {
    "components": {"schemas": {"Thing": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}},
    "paths": {
        "/things": {
            "get": {"operationId": "things.read", "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}}}
        }
    },
}


@pytest.mark.parametrize(
    ("status", "kind", "body", "wrong"),
    [
        (200, "application/json", b'{"a":1}', ""),
        (200, "application/json", b'{"a":"1"}', "not as described"),
        (200, "application/json", b"{}", "not as described"),
        (200, "application/json", b'{"a":1,"b":2}', "not as described"),
        (200, "text/plain", b"a", "media type"),
        (200, "application/json", b"", "no body"),
        (201, "application/json", b'{"a":1}', "not described"),
        (500, "application/json", b"{}", "500"),
    ],
)
def test_the_check_finds_what_is_not_described(status: int, kind: str, body: bytes, wrong: str) -> None:
    found = AnswerCheck(DOCUMENT).complaint("things.read", Answer(status, {"content-type": kind}, body))
    assert wrong in found if wrong else found == ""
