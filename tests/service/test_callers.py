"""Callers have roles in one tenant; what they may not do is said with the role that it needs."""

import pytest

from perdure.code.call_options import DEFAULT_TENANT
from perdure.core.errors import BadValue, Forbidden, Unauthenticated
from perdure.service.callers import LOCAL, ROLES, Caller, Role, checked_roles


@pytest.mark.parametrize("has", ROLES)
@pytest.mark.parametrize("needs", ROLES)
def test_a_role_gives_itself_alone_and_admin_gives_all(has: Role, needs: Role) -> None:
    assert Caller("acme", "key:a", frozenset((has,))).may(needs) == (has in (needs, "admin"))


def test_a_caller_without_roles_may_nothing() -> None:
    assert not any(Caller("acme", "key:a", frozenset()).may(role) for role in ROLES)


def test_the_developer_on_this_machine_has_all_roles_in_the_default_tenant() -> None:
    assert LOCAL.tenant == DEFAULT_TENANT and all(LOCAL.may(role) for role in ROLES) and LOCAL.queues is None


def test_a_refusal_names_the_role_that_is_needed_and_who_grants_it() -> None:
    viewer = Caller("acme", "key:AbC123xy", frozenset(("viewer",)))
    viewer.expect("viewer", "executions.page")
    with pytest.raises(
        Forbidden, match=r"key:AbC123xy may not call executions.cancel: it needs the role operator. An admin of the tenant grants roles"
    ) as said:
        viewer.expect("operator", "executions.cancel")
    assert (said.value.code, said.value.role) == ("forbidden", "operator")


def test_a_caller_expires_at_its_time_and_not_before() -> None:
    caller = Caller("acme", "oidc:ada@example.com", frozenset(("viewer",)), expires_at_s=100.0)
    caller.expect_unexpired(99.9)
    Caller("acme", "local", frozenset()).expect_unexpired(1e12)
    with pytest.raises(Unauthenticated, match=r"oidc:ada@example\.com has expired"):
        caller.expect_unexpired(100.0)


@pytest.mark.parametrize("names", [[], ["root"], ["viewer", "root"], "viewer", None, [["viewer"]]])
def test_what_is_no_role_is_refused(names: object) -> None:
    with pytest.raises(BadValue, match="viewer, operator, approver, author, admin"):
        checked_roles(names)


def test_roles_are_read_by_name() -> None:
    assert checked_roles(("viewer", "author")) == {"viewer", "author"}
