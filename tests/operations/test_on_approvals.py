"""Who may give which vote: a person their own, a program and an admin that of the person for whom they act."""

import pytest

from perdure.code.results import Vote
from perdure.core.errors import Forbidden
from perdure.operations.on_approvals import vote_of
from perdure.service.callers import LOCAL, Caller, Role


def caller(subject: str, role: Role = "approver") -> Caller:
    return Caller("default", subject, frozenset((role,)), ("ops",))


@pytest.mark.parametrize("by", ["", "ada@example.com", "oidc:ada@example.com"])
def test_a_person_decides_as_themselves_in_their_own_groups(by: str) -> None:
    vote = vote_of(caller("oidc:ada@example.com"), Vote(by, True, "fine", {"reason": 1}, ("board",)))
    assert vote == Vote(by or "ada@example.com", True, "fine", {"reason": 1}, ("ops",))


def test_a_person_does_not_decide_as_another_one() -> None:
    with pytest.raises(Forbidden, match="the decision of eve"):
        vote_of(caller("oidc:ada@example.com"), Vote("eve", True))


@pytest.mark.parametrize("who", [caller("oidc:ada@example.com", "admin"), caller("key:AbC123xy"), LOCAL])
def test_an_admin_and_a_program_say_for_whom_they_decide(who: Caller) -> None:
    vote = Vote("eve", False, groups=("board",))
    assert vote_of(who, vote) == vote
