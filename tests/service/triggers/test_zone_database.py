"""Claims about the version of the zone database: it is what the database says, else follows from its rules, and never goes back."""

from pathlib import Path

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.attributes import index_attributes
from perdure.service.triggers.zone_database import outdated_by, version_in, zone_version


def test_a_database_names_its_version(tmp_path: Path) -> None:
    (tmp_path / "tzdata.zi").write_text("# version 2026b\nR A 1 2\n")
    assert version_in(tmp_path) == "2026b"
    (tmp_path / "+VERSION").write_text("2026c\n")
    assert version_in(tmp_path) == "2026c"


def test_a_database_without_a_name_has_a_version_that_follows_from_its_rules(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe/London").write_bytes(b"TZif2 some rules")
    first = version_in(tmp_path)
    (tmp_path / "notes.txt").write_text("no rules")
    assert version_in(tmp_path) == first and first < "1900a"
    (tmp_path / "Europe/London").write_bytes(b"TZif2 other rules")
    assert version_in(tmp_path) != first


def test_this_machine_has_a_version() -> None:
    assert zone_version() == zone_version() != ""


def replaces(ours: str, theirs: str) -> bool:
    (condition,) = attribute_conditions({"zone": outdated_by(ours)})
    return condition.holds(index_attributes((("zone", theirs),)))


def test_only_a_later_database_replaces_what_another_one_has_found() -> None:
    assert replaces("2026b", "2026a") and replaces("2026b", "2025c") and replaces("2026b", "0:1234")
    assert not replaces("2026b", "2026b") and not replaces("2026b", "2026c")
    assert replaces("0:5678", "0:1234") and not replaces("0:5678", "0:5678")
