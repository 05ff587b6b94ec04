"""Claims about auth profiles: which are valid, and to whom a secret is sent."""

from typing import Any

import pytest

from perdure.code.step_environment import StepControl, StepInfo
from perdure.core.errors import BadValue, MissingSecret
from perdure.core.paths import Key
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.openapi.auth_profiles import AuthFields, AuthProfile, auth_fields, auth_profiles, find_profile
from perdure.definitions.kinds.openapi.openapi_errors import AuthRefused

SECRETS = {"T": "canary-token", "LINES": "a\r\nX-Evil: 1"}


def info() -> StepInfo:
    return StepInfo(Key("t", "w", "e"), (("a", 0),), 1, life=StepControl(lambda _: None, (), SECRETS.get))


async def added(profile: dict[str, Any], url: str = "https://api.example/x", step: StepInfo | None = None) -> AuthFields:
    deployment = Deployment(auth_profiles={"it": {"hosts": ["api.example"], **profile}})
    return await auth_fields("it", find_profile(deployment, "it"), url, step or info(), deployment)


async def test_a_profile_adds_its_secret_where_it_says() -> None:
    assert await added({"bearer": "T"}) == AuthFields(headers={"Authorization": "Bearer canary-token"})
    assert await added({"basic": {"user": "ada", "password": "T"}}) == AuthFields(headers={"Authorization": "Basic YWRhOmNhbmFyeS10b2tlbg=="})
    for place, found in (
        ("header", AuthFields(headers={"X-Key": "canary-token"})),
        ("query", AuthFields(query={"X-Key": "canary-token"})),
        ("cookie", AuthFields(cookie="X-Key=canary-token")),
    ):
        assert await added({"api_key": {"secret": "T", "in": place, "name": "X-Key"}}) == found
    assert await added({}) == AuthFields()


@pytest.mark.parametrize(
    ("hosts", "url", "named"),
    [
        (["api.example"], "https://evil.example/", "evil.example"),
        (["api.example"], "http://api.example/", "http://api.example"),
        (["api.example"], "https://api.example:8443/", "api.example:8443"),
        (["api.example"], "https://api.example.evil.example/", "api.example.evil.example"),
        (["api.example"], "https://sub.api.example/", "sub.api.example"),
        (["api.example:8443"], "https://api.example/", "api.example"),
        (["http://127.0.0.1:80"], "https://127.0.0.1/", "127.0.0.1"),
    ],
)
async def test_a_secret_goes_to_no_server_that_its_profile_does_not_name(hosts: list[str], url: str, named: str) -> None:
    step = info()
    with pytest.raises(AuthRefused, match=f"the auth profile it is not for {named}, so its secret is not sent there"):
        await added({"bearer": "T", "hosts": hosts}, url, step)
    assert not (step.life and step.life.mask), "it is not even asked for"


async def test_a_secret_goes_to_the_servers_that_its_profile_names() -> None:
    for hosts, url in (
        (["API.example"], "https://api.example/"),
        (["a.example", "http://b.example:81"], "http://b.example:81/x"),
        (["*"], "http://any.example/"),
    ):
        assert (await added({"bearer": "T", "hosts": hosts}, url)).headers
    deployment = Deployment(auth_profiles={"it": AuthProfile(bearer="T", server="https://api.example/v1")})
    assert (await auth_fields("it", find_profile(deployment, "it"), "https://api.example/v2", info(), deployment)).headers


async def test_a_secret_that_is_missing_or_no_line_is_told_by_its_name() -> None:
    with pytest.raises(MissingSecret, match="the secret NONE is not set"):
        await added({"bearer": "NONE"})
    with pytest.raises(AuthRefused, match="the secret LINES of the auth profile it is not one line of ASCII"):
        await added({"bearer": "LINES"})


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        ({"bearer": "T"}, "bound to the servers"),
        ({"bearer": "T", "basic": {"user": "a", "password": "T"}, "hosts": ["a"]}, "one way of authorization"),
        ({"bearer": "a b", "hosts": ["a"]}, "the name of a secret, not its value"),
        ({"token": "T"}, "an auth profile, such as"),
        ({"basic": {"user": "a:b", "password": "T"}, "hosts": ["a"]}, "without a colon"),
        ({"api_key": {"secret": "T", "in": "body", "name": "x"}, "hosts": ["a"]}, "an auth profile, such as"),
        ({"api_key": {"secret": "T", "in": "header", "name": "x y"}, "hosts": ["a"]}, "the name of a header"),
        ({"bearer": "T", "hosts": ["a b"]}, "a host has letters"),
        ({"bearer": "T", "hosts": ["ftp://a"]}, "begins with http"),
        ({"server": "x"}, "begins with http"),
        (5, "an auth profile, such as"),
    ],
)
def test_a_profile_that_is_none_is_refused(profile: Any, why: str) -> None:
    with pytest.raises(BadValue, match=why) as refused:
        auth_profiles(Deployment(auth_profiles={"it": profile}))
    assert "canary" not in str(refused.value)


def test_profiles_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_AUTH_PROFILE_WEATHER", '{"bearer": "T", "hosts": ["a.example"]}')
    assert auth_profiles(Deployment()) == {"weather": AuthProfile(bearer="T", hosts=("a.example",))}
    assert find_profile(Deployment(auth_profiles={"weather": {"server": "https://b.example"}}), "weather").server == "https://b.example"
    with pytest.raises(AuthRefused, match=r"the auth profile x is not known in this process \(known: weather\); start the engine with PERDURE_AUTH_PROFILE_X"):
        find_profile(Deployment(), "x")
    monkeypatch.setenv("PERDURE_AUTH_PROFILE_WEATHER", "{canary")
    with pytest.raises(BadValue, match="PERDURE_AUTH_PROFILE_WEATHER") as refused:
        auth_profiles(Deployment())
    assert "canary" not in str(refused.value)
    monkeypatch.setenv("PERDURE_AUTH_PROFILE_WEATHER", "")
    with pytest.raises(BadValue, match="the name of an auth profile"):
        auth_profiles(Deployment(auth_profiles={"X": {}}))
