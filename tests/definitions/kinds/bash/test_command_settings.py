"""Asking: environments, directories and inputs, worked out."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.code.step_environment import StepInfo
from perdure.core.errors import BadValue
from perdure.core.paths import Key
from perdure.definitions.kinds.bash.bash_kind import SYSTEM_PATH, command_environment, command_request, directory_name, directory_parts, isolation_level

INFO = StepInfo(Key("default", "release", "r 1"), (("test", 0),), 2)
ALWAYS = {
    "PATH": SYSTEM_PATH,
    "HOME": "/w",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PERDURE_EXECUTION_ID": "r 1",
    "PERDURE_WORKFLOW": "release",
    "PERDURE_IDEMPOTENCY_KEY": INFO.key,
    "PERDURE_ATTEMPT": "2",
    "IS_WORKFLOW_SESSION": "true",
    "WORKFLOW_ID": "release",
    "WORKFLOW_EXECUTION_ID": "r 1",
}


def test_the_environment_is_what_is_always_there_and_what_the_step_gives() -> None:
    assert command_environment(None, "/w", INFO) == ALWAYS
    given = {"A": "x @y", "N": 1, "F": 0.5, "T": True, "J": {"b": [1, "ü"]}, "L": [], "E": ""}
    found = command_environment(given, "/w", INFO)
    assert found == {**ALWAYS, "A": "x @y", "N": "1", "F": "0.5", "T": "true", "J": '{"b":[1,"ü"]}', "L": "[]", "E": ""}


def test_null_unsets_a_variable_and_what_the_step_gives_stands_before_what_is_always_there() -> None:
    found = command_environment({"LANG": None, "NOBODY": None, "PATH": "/opt"}, "/w", INFO)
    assert found == {name: value for name, value in ALWAYS.items() if name != "LANG"} | {"PATH": "/opt"}


@pytest.mark.parametrize("env", [{"A": "x\0y"}, {"A\0": "x"}, {"A=B": "x"}, {"": "x"}, {"A": "\ud800"}, {"\ud800": "a"}, {"A": ["x\0"]}])
def test_what_no_program_can_be_given_is_refused_and_the_error_does_not_repeat_it(env: dict[str, Any]) -> None:
    if env == {"A": ["x\0"]}:  # in JSON it is escaped
        assert command_environment(env, "/w", INFO)["A"] == '["x\\u0000"]'
        return
    with pytest.raises(BadValue) as refused:
        command_environment({**env, "SECRET": "canary"}, "/w", INFO)
    assert "env" in str(refused.value) and "canary" not in str(refused.value) and "x\0y" not in str(refused.value)


@pytest.mark.slow
@given(st.text(), st.text())
def test_the_directories_of_two_names_are_two_and_safe(one: str, other: str) -> None:
    for name in (one, other):
        found = directory_name(name)
        assert found not in ("", ".", "..") and not {"/", "\0"} & set(found) and len(found) <= 64 and not found.startswith((".", "-"))
        assert found.isascii()
    assert (directory_name(one) == directory_name(other)) == (one == other)


def test_a_plain_name_is_its_own_directory_and_no_other_is_called_as_a_hashed_one() -> None:
    assert directory_parts(Key("default", "release", "2026-11.3_a")) == ["default", "release", "2026-11.3_a"]
    for name in ("..", ".", "a/b", "../../etc", "x" * 65, "ünï", " ", "-rf", ".ssh"):
        assert "~" in directory_name(name)
    assert directory_name(directory_name("a/b")) != directory_name("a/b")


def test_a_config_is_a_command_or_a_mapping_with_one(tmp_path: Path) -> None:
    plain, mapped = (command_request(config, None, None, tmp_path, INFO) for config in ("ls", {"command": "ls"}))
    assert plain == mapped
    assert (plain["cwd"], plain["stdin"], plain["isolate"]) == (".", None, "none")
    for wrong in (5, None, {}, {"command": 5}, {"command": "ls", "shell": "zsh"}, "a\0b", {"command": "ls", "cwd": 5}):
        with pytest.raises(BadValue):
            command_request(wrong, None, None, tmp_path, INFO)


def test_what_it_reads_is_stdin_or_what_stands_in_with(tmp_path: Path) -> None:
    assert command_request({"command": "cat", "stdin": "x"}, None, None, tmp_path, INFO)["stdin"] == "x"
    assert command_request({"command": "cat", "stdin": {"a": 1}}, None, None, tmp_path, INFO)["stdin"] == '{"a":1}'
    assert command_request("cat", {"a": 1}, None, tmp_path, INFO)["stdin"] == '{"a":1}'
    with pytest.raises(BadValue, match="beside stdin"):
        command_request({"command": "cat", "stdin": "x"}, {"a": 1}, None, tmp_path, INFO)


def test_isolation_has_three_levels_and_true_is_all_of_it() -> None:
    assert [isolation_level(one) for one in (True, False, "none", "network", "all")] == ["all", "none", "none", "network", "all"]
    of_no_meaning: tuple[Any, ...] = ("some", None, 1, 0, [], {})
    for wrong in of_no_meaning:
        with pytest.raises(BadValue, match="isolate"):
            isolation_level(wrong)


def test_tries_of_one_step_exclude_each_other_and_nobody_else(tmp_path: Path) -> None:
    def lock(work: Path, info: StepInfo) -> Any:
        return command_request("ls", None, None, work, info)["lock"]

    other = StepInfo(INFO.execution, (("build", 0),), 1)
    again = StepInfo(INFO.execution, INFO.path, 3)
    assert lock(tmp_path, INFO) == lock(tmp_path, again)
    assert len({lock(tmp_path, INFO), lock(tmp_path, other), lock(tmp_path / "x", INFO)}) == 3
