"""The contents that definitions refer to, in a directory: found by name, read as what they are, held against their hash."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from perdure import BadDefinition, Definition
from perdure.core.errors import BadValue
from perdure.definition_workflow import ContentDirectory
from perdure.testing import World

DOCUMENT: dict[str, Any] = {
    "nodes": [
        {"id": "a", "type": "task", "config_ref": {"type_url": "svc.x/1", "cas_ref": "sha256:config"}},
        {"id": "b", "type": "task", "config": {"action": "say", "word": "large"}},
    ],
    "edges": [{"from": "a", "to": "b", "condition": {"type": "schema_validation", "schema_ref": "cas://sha256:schema"}}],
    "metadata": {"name": "referring"},
}


def filled(directory: Path) -> Path:
    """The directory with the contents of the document."""
    (directory / "sha256:config").write_text('{"action": "say", "word": "hello"}')
    (directory / "schema.yaml").write_text("type: string\nminLength: 3\n")
    return directory


def test_a_document_runs_with_the_contents_that_it_refers_to(tmp_path: Path, world: World) -> None:
    say = Definition.of(DOCUMENT, tools={"say": lambda word: word}, blobs=filled(tmp_path))
    assert world.run(say) == "large"
    mapping = {"sha256:config": {"action": "say", "word": "hello"}, "cas://sha256:schema": {"type": "string", "minLength": 3}}
    assert Definition.of(DOCUMENT, tools={"say": lambda word: word}, blobs=mapping).read.hash == say.read.hash
    with pytest.raises(BadDefinition, match="no content for 'sha256:config'"):
        Definition.of(DOCUMENT)


def test_contents_are_found_by_their_names_with_or_without_algorithm_and_suffix(tmp_path: Path) -> None:
    held = ContentDirectory(filled(tmp_path))
    (tmp_path / "source.py").write_text("def main(input):\n    return input")
    (tmp_path / "{odd").write_text("{no data")
    assert held["sha256:schema"] == held["schema"] == {"type": "string", "minLength": 3}
    assert held["sha256:source"].startswith("def main") and sorted(held) == ["schema.yaml", "sha256:config", "source.py", "{odd"] and len(held) == 4
    assert not any(name in held for name in ("", ".", "..", "../schema", "a/b", "sha256:other", 3))
    with pytest.raises(KeyError):
        held["sha256:other"]


def test_a_file_that_is_named_by_a_hash_has_to_have_it(tmp_path: Path) -> None:
    raw = b'{"action": "say"}'
    name = sha256(raw).hexdigest()
    (tmp_path / f"{name}.json").write_bytes(raw)
    assert ContentDirectory(tmp_path)[f"sha256:{name}"] == {"action": "say"}
    (tmp_path / f"{name}.json").write_bytes(raw + b" ")
    with pytest.raises(BadValue, match="this file was changed"):
        ContentDirectory(tmp_path)[f"sha256:{name}"]


def test_what_is_no_directory_no_data_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="a directory of files"):
        ContentDirectory(tmp_path / "none")
    (tmp_path / "wrong.json").write_text("{no data")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, why in (("wrong", "YAML or JSON"), ("binary", "is not UTF-8")):
        with pytest.raises(BadValue, match=why):
            ContentDirectory(tmp_path)[name]
