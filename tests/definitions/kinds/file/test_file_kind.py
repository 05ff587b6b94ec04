"""Claims about steps of the kind `file`: what is read and written as what, and that only what is allowed is reached."""

from pathlib import Path
from typing import Any

import pytest

from perdure import BadDefinition, Definition, ExecutionFailed
from perdure.core.errors import BadValue
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.testing import World


def ran(world: World, root: Path | None, *files: Any, **more: Any) -> Any:
    steps = [{"id": f"s{number}", "file": one} for number, one in enumerate(files)]
    document = {"perdure": 1, "name": "files", "order": "listed", "steps": steps, "output": f"@s{len(files) - 1}", **more}
    return world.run(Definition.of(document, deployment=Deployment(Allowed(file=root))))


ROWS = [{"item": "tea", "cents": 300}, {"item": "coffee", "cents": None}]


@pytest.mark.parametrize(
    ("write", "read", "comes_to"),
    [
        ({"write": "a.csv", "content": ROWS}, "a.csv", [{"item": "tea", "cents": "300"}, {"item": "coffee", "cents": ""}]),
        ({"write": "a.json", "content": ROWS}, "a.json", ROWS),
        ({"write": "a.txt", "content": ["a", "b"], "as": "lines"}, {"read": "a.txt", "as": "lines"}, ["a", "b"]),
        ({"write": "a.txt", "content": "Grüezi\n"}, "a.txt", "Grüezi\n"),
        ({"write": "a.bin", "content": {"base64": "AP8="}, "as": "base64"}, {"read": "a.bin", "as": "base64"}, {"base64": "AP8="}),
        ({"write": "a.xml", "content": "<a><b>1</b></a>"}, "a.xml", {"a": {"b": "1"}}),
    ],
)
def test_what_is_written_is_read_again(world: World, tmp_path: Path, write: Any, read: Any, comes_to: Any) -> None:
    assert ran(world, tmp_path, write, read) == comes_to


def test_rows_are_appended_under_one_line_of_names_and_entries_are_listed(world: World, tmp_path: Path) -> None:
    append = {"append": "out/log.csv", "content": ROWS[:1]}
    assert ran(world, tmp_path, append, append, "out/log.csv") == [{"item": "tea", "cents": "300"}] * 2


def test_a_directory_is_listed(world: World, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("four")
    found = ran(world, tmp_path, {"list": "."})
    assert [(one["name"], one["type"]) for one in found] == [("a.txt", "file"), ("b", "directory")] and found[0]["size_bytes"] == 4


def test_nothing_is_reached_unless_the_deployment_allows_it(world: World) -> None:
    with pytest.raises(ExecutionFailed, match="--allow file:DIRECTORY"):
        ran(world, None, {"list": "."})


@pytest.mark.parametrize("path", ["@{vars.path}", "a/@{vars.path}"])
def test_a_path_from_data_can_not_leave_the_directory(world: World, tmp_path: Path, path: str) -> None:
    (tmp_path / "allowed").mkdir()
    (tmp_path / "secret").write_text("hush")
    with pytest.raises(ExecutionFailed, match="leads out of the directory"):
        ran(world, tmp_path / "allowed", {"read": path}, vars={"path": "../../secret"})


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ({"file": "a", "with": "x"}, "has no use for it"),
        ({"file": {"write": "a"}}, "in one of them"),
        ({"file": {"write": "a", "content": "x"}, "with": "y"}, "in one of them"),
        ({"file": {"read": "a", "content": "x"}}, "only what is written"),
        ({"file": {"write": "a", "content": "x", "max_bytes": 5}}, "bounds what is read"),
    ],
)
def test_what_has_no_effect_is_refused(step: Any, why: str) -> None:
    with pytest.raises(BadDefinition, match=why):
        _ = Definition.of({"perdure": 1, "name": "files", "steps": [{"id": "a", **step}]}).code


@pytest.mark.parametrize(
    "content", [{"write": "a.csv", "content": "@{vars.rows}"}, {"write": "a.csv", "content": [{"a": [1]}]}, {"write": "a", "content": 5, "as": "lines"}]
)
def test_content_that_can_not_be_written_so_fails_the_step_and_writes_nothing(world: World, tmp_path: Path, content: Any) -> None:
    with pytest.raises(ExecutionFailed, match="can't be written as"):
        ran(world, tmp_path, content, vars={"rows": {"a": 1}})
    assert list(tmp_path.iterdir()) == []


def test_one_directory_is_allowed_by_its_name() -> None:
    assert Allowed.of(["bash,file:/srv/reports"]) == Allowed(bash=True, file="/srv/reports")
    for words in (["file"], ["file:"], ["file:/a", "file:/b"]):
        with pytest.raises(BadValue, match="file:DIRECTORY"):
            Allowed.of(words)
