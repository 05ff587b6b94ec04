"""Secrets in files: one for each, or all in one; what can't be read is said without showing it."""

import logging
from pathlib import Path

import pytest

from perdure.core.errors import BadValue
from perdure.service.secrets.secret_sources import SecretFiles, parse_env_lines

PEM = "-----BEGIN KEY-----\nabc\n-----END KEY-----\n"


def private(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file


def test_a_directory_has_a_file_for_each_without_the_line_break_that_editors_make(tmp_path: Path) -> None:
    found = SecretFiles(tmp_path)
    for name, text in {"TOKEN": "hush\n", "plain": "hush", "windows": "hush\r\n", "key.pem": PEM, ".hidden": "x"}.items():
        private(tmp_path / name, text)
    (tmp_path / "directory").mkdir()
    assert [found.find(name) for name in ("TOKEN", "plain", "windows", "key.pem")] == ["hush", "hush", "hush", PEM]
    assert [found.find(name) for name in (".hidden", "nowhere", "directory", "..", "../TOKEN", f"../{tmp_path.name}/TOKEN", "a/b", "", "\0")] == [None] * 9
    assert found.names() == ["TOKEN", "key.pem", "plain", "windows"]
    private(tmp_path / "TOKEN", "changed")
    assert found.find("TOKEN") == "changed"


def test_as_container_platforms_mount_them_files_are_links(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    private(tmp_path / "..2026" / "TOKEN", "hush")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "TOKEN").symlink_to("..data/TOKEN")
    assert SecretFiles(tmp_path).find("TOKEN") == "hush" and SecretFiles(tmp_path).names() == ["TOKEN"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("secrets.env", 'A=x\nexport B = "y\\n"\n'),
        ("secrets.json", '{"A": "x", "B": "y\\n"}'),
        ("secrets.yaml", 'A: x\nB: "y\\n"\n'),
        ("s.yml", "{A: x, B: 'y\n\n'}"),
    ],
)
def test_a_file_has_all_of_them(tmp_path: Path, name: str, text: str) -> None:
    found = SecretFiles(private(tmp_path / name, text))
    assert (found.find("A"), found.find("B"), found.find("C"), found.names()) == ("x", "y\n", None, ["A", "B"])


def test_lines_have_quotes_and_comments_as_shells_read_them() -> None:
    text = """
    # a comment
    A=x # behind
    B="a # in \\"quotes\\"\\t\\\\"
    C='it is \\n'
    D=
    E=a=b#c
    F = with blanks
    """
    file = Path("f")
    assert parse_env_lines(text, file) == {"A": "x", "B": 'a # in "quotes"\t\\', "C": "it is \\n", "D": "", "E": "a=b#c", "F": "with blanks"}
    with pytest.raises(BadValue, match="line 2 of f") as raised:
        parse_env_lines("A=x\nhush hush", file)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("s.json", '{"A": hush}'), ("s.json", '["hush"]'), ("s.json", '{"A": 5555}'), ("s.yaml", "A: [hush"), ("s.yaml", "A: 5555"), ("s.env", "hush")],
)
def test_what_can_t_be_read_is_said_and_not_shown(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(BadValue, match=name) as raised:
        SecretFiles(private(tmp_path / name, text)).find("A")
    assert "hush" not in str(raised.value) and "5555" not in str(raised.value)
    with pytest.raises(BadValue, match="a directory or a file that is there"):
        SecretFiles(tmp_path / "nowhere.env").find("A")
    (tmp_path / "s.bytes").write_bytes(b"A=\xff")
    with pytest.raises(BadValue, match="it is not UTF-8"):
        SecretFiles(tmp_path / "s.bytes").find("A")


def test_who_lets_others_read_them_is_warned_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = private(tmp_path / "s.env", "A=hush")
    with caplog.at_level(logging.WARNING, "perdure.secrets"):
        SecretFiles(file).find("A")
        assert caplog.messages == []
        file.chmod(0o644)
        found = SecretFiles(file)
        assert found.find("A") == found.find("A") == "hush"
    assert caplog.messages == [f"the file of secrets {file} is not private: users other than its owner may read it. Run chmod go= {file}"]
