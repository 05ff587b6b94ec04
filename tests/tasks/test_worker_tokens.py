"""Claims about access: a token opens what it is for, and what is badly said of tokens is refused before anything is served."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from perdure.core.errors import BadValue
from perdure.tasks.worker_tokens import FULL_GRANT, TokenGrant, WorkerAccess, allowed_queues, load_worker_access

TOKEN = "a-token-of-some-length"
DIGEST = sha256(TOKEN.encode()).hexdigest()


def test_without_tokens_everybody_may_have_everything() -> None:
    none = load_worker_access(environment={})
    assert not none and none.of(None) == none.of("whatever") == ("", FULL_GRANT)


def test_a_token_of_the_environment_or_of_a_file_opens_everything(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    for found in (load_worker_access(environment={"PERDURE_WORKER_TOKEN": TOKEN}), load_worker_access(file, environment={})):
        assert found and found.of(TOKEN) == (DIGEST, FULL_GRANT)
        assert found.of(None) is found.of("") is found.of(TOKEN[:-1]) is found.of(DIGEST) is None


def test_a_file_says_what_each_token_opens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(json.dumps({DIGEST: {"queues": ["gpu"], "tenants": ["acme"]}, "0" * 64: {}}))
    found = load_worker_access(file, environment={"PERDURE_WORKER_TOKEN": "another-one-of-some-length"})
    assert found.of(TOKEN) == (DIGEST, TokenGrant(frozenset({"gpu"}), frozenset({"acme"})))
    assert found.of("another-one-of-some-length") is not None and found.of("third") is None


@pytest.mark.parametrize(
    "written",
    [
        "",
        "short",
        "two words of some length",
        '{"abc": {}}',
        f'{{"{DIGEST}": {{"queue": ["gpu"]}}}}',
        f'{{"{DIGEST}": []}}',
        "{",
        f'{{"{DIGEST.upper()}": {{}}}}',
    ],
)
def test_what_is_badly_said_of_tokens_is_refused(tmp_path: Path, written: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(written)
    with pytest.raises(BadValue) as refused:
        load_worker_access(file, environment={})
    assert "short" not in str(refused.value) or "a token" not in str(refused.value)
    with pytest.raises(BadValue):
        load_worker_access(tmp_path / "nowhere", environment={})


def test_a_token_that_is_too_short_is_refused_without_being_repeated() -> None:
    with pytest.raises(BadValue, match="at least 16 characters") as refused:
        load_worker_access(environment={"PERDURE_WORKER_TOKEN": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_what_may_be_asked_for_is_what_is_served_and_granted() -> None:
    served = frozenset({"a", "b"})
    assert allowed_queues(None, served, FULL_GRANT) == (served, frozenset())
    assert allowed_queues(["a", "c"], served, FULL_GRANT) == (frozenset({"a"}), frozenset({"c"}))
    assert allowed_queues(None, served, TokenGrant(frozenset({"b", "c"}))) == (frozenset({"b"}), frozenset())
    assert WorkerAccess({DIGEST: FULL_GRANT}).of("ü\udcff") is None
