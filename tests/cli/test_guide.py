"""The guide tells of every command, what it shows can be typed, and what it says of exit codes is so."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from perdure.cli import exit_codes, targets
from perdure.cli.command_list import root
from tests.cli.guide_writer import BLOCK, GUIDE, commands, file

TEXT = GUIDE.read_text()


def all_commands(group: click.Group, path: str = "perdure") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{path} {name}")


def typed() -> Iterator[list[str]]:
    """The words of each command in the guide, pipes and sequences taken apart."""
    for block in BLOCK.findall(TEXT):
        for line in commands(block):
            part: list[str] = []
            for word in [*shlex.split(line.replace(";", " ; ")), "|"]:
                if word not in ("|", ";", "&"):
                    part.append(word)
                else:
                    if part[:1] == ["perdure"]:
                        yield part[1:]
                    part = []


def test_every_command_and_every_option_is_told_of() -> None:
    plain = re.sub(r"\s+", " ", TEXT)
    for path, command in all_commands(root):
        assert f"`{path}" in plain or f"$ {path}" in plain or f"| {path}" in plain or f"`{path.removeprefix('perdure ')}`" in plain, path
        for option in command.params:
            if isinstance(option, click.Option):
                assert any(f"{name} " in plain or f"{name}`" in plain for name in option.opts), f"{path} {option.opts}"


@pytest.mark.parametrize("words", list(typed()), ids=shlex.join)
def test_what_it_shows_can_be_typed(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for _, command in all_commands(root):
        if not isinstance(command, click.Group):
            monkeypatch.setattr(command, "callback", lambda **_: None)  # read, and not carried out
    with pytest.raises(SystemExit) as ended:
        root.main(words, prog_name="perdure")
    assert ended.value.code == 0


def test_its_file_has_the_workflows_that_it_names(tmp_path: Path) -> None:
    name, source = file(TEXT)
    (tmp_path / f"guide_{name}").write_text(source)
    found = {one.code.name for one in targets.load_code([str(tmp_path / f"guide_{name}")]).workflows}
    named = {word.rpartition(":")[2] for words in typed() for word in words if word.startswith(f"{name}:")}
    assert named == found == {"greet", "order", "refund"}


def test_its_exit_codes_are_those_of_the_table() -> None:
    for code, meaning in exit_codes.MEANINGS.items():
        assert f"| {int(code)} | {meaning} |" in TEXT
    assert len(re.findall(r"^\| \d+ \|", TEXT, re.MULTILINE)) == len(exit_codes.MEANINGS)


def test_the_help_names_every_code() -> None:
    with click.Context(root, info_name="perdure") as context:
        shown = root.get_help(context)
    assert all(line.strip() in shown for line in exit_codes.exit_code_table().splitlines())
