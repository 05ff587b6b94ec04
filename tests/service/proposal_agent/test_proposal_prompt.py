"""Claims about the prompt: its examples are valid, it has every kind of step, and its files can be copied, changed and used."""

import re
from pathlib import Path

import pytest

from perdure.core.errors import BadValue
from perdure.definitions.kinds.config_checks import read_checked
from perdure.service.kind_list import list_kinds
from perdure.service.proposal_agent.proposal_prompt import (
    EXAMPLES,
    INSTRUCTIONS_CHARACTERS_MAX,
    PROMPT_FILE,
    PROMPT_FOLDER,
    PresentDefinition,
    export_prompt,
    instructions_of,
    read_prompt,
    task_text,
)
from perdure.service.proposal_agent.proposal_tools import TOOL_NAMES

EXAMPLE_FILES = sorted((PROMPT_FOLDER / EXAMPLES).glob("*.yaml"))


@pytest.mark.parametrize("file", EXAMPLE_FILES, ids=lambda file: file.stem)
def test_each_example_is_valid_without_a_warning(file: Path) -> None:
    assert not read_checked(file.read_text(encoding="utf-8")).findings


def test_the_definition_in_the_description_of_the_format_is_valid() -> None:
    (document,) = re.findall(r"```yaml\n(.*?)```", (PROMPT_FOLDER / PROMPT_FILE).read_text(encoding="utf-8"), re.DOTALL)
    assert not read_checked(document).findings


def test_the_prompt_has_every_kind_every_example_and_every_tool_and_no_mark() -> None:
    text = instructions_of(read_prompt())
    for kind in list_kinds().items:
        assert f"- `{kind.name}`: " in text
    for file in EXAMPLE_FILES:
        assert file.read_text(encoding="utf-8").strip() in text
    assert all(f"`{name}`" in text for name in TOOL_NAMES if name != "read_definition")
    assert "{{" not in text and len(text) < 30_000


def test_the_files_are_copied_changed_and_used_and_not_overwritten(tmp_path: Path) -> None:
    made = export_prompt(tmp_path / "ours")
    assert {one.name for one in made} == {PROMPT_FILE, *(file.name for file in EXAMPLE_FILES)}
    assert read_prompt(tmp_path / "ours") == read_prompt()
    _ = (tmp_path / "ours" / PROMPT_FILE).write_text("Ours. {{examples}} {{kinds}}", encoding="utf-8")
    for file in (tmp_path / "ours" / EXAMPLES).glob("*.yaml"):
        file.unlink()
    _ = (tmp_path / "ours" / EXAMPLES / "one.yaml").write_text("perdure: 1\n", encoding="utf-8")
    assert instructions_of(read_prompt(tmp_path / "ours")).startswith("Ours. ```yaml\nperdure: 1\n``` - `agent`: ")
    with pytest.raises(BadValue, match="which is not overwritten"):
        _ = export_prompt(tmp_path / "ours")


def test_a_folder_without_a_prompt_or_with_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match=r"a folder with prompt\.md"):
        _ = read_prompt(tmp_path)
    _ = (tmp_path / PROMPT_FILE).write_bytes(b"\xff")
    with pytest.raises(BadValue, match="in UTF-8"):
        _ = read_prompt(tmp_path)
    _ = (tmp_path / PROMPT_FILE).write_text("x" * (INSTRUCTIONS_CHARACTERS_MAX + 1), encoding="utf-8")
    with pytest.raises(BadValue, match="at most 200,000"):
        _ = read_prompt(tmp_path)


def test_a_task_with_many_tools_names_the_first_and_says_how_many_are_left() -> None:
    text = task_text("Do it", PresentDefinition("one"), [], {f"w{number}": "x" * 500 for number in range(150)})
    assert "Its name is 'one'." in text and "… and 50 more, which look_up finds" in text and len(text) < 20_000
