"""Temporal's samples of messages and children on Perdure, killed at every write."""

import sys
from pathlib import Path

import pytest

from examples.ports import greetings as port
from examples.ports.greetings import Language
from perdure import HasEnded
from perdure.testing import World
from tests.examples.ports.processes import Program

pytestmark = pytest.mark.perdure(crash_at="every")


def test_names_that_were_submitted_before_the_exit_are_greeted_in_their_order(world: World) -> None:
    run = world.start(port.collect_greetings)
    for name in ("user1", "user2", "user3"):
        run.send("submit_greeting", name)
    run.send("exit")
    assert run.result() == ["Hello, user1", "Hello, user2", "Hello, user3"]


def test_a_query_reads_the_greeting_before_and_after_the_end(world: World) -> None:
    run = world.start(port.greet_and_part, "World")
    assert run.query("greeting") == "Hello, World!"
    world.skip("3s")
    assert run.status == "completed"
    assert run.query("greeting") == "Goodbye, World!"


def test_a_child_composes_the_greeting_once(world: World) -> None:
    run = world.start(port.greet_by_child, "World")
    assert run.result() == "Hello, World!"
    assert [child.key.id for child in run.children()] == ["greeting-of-World"]


def test_languages_change_by_updates_and_the_approval_releases_the_greeting(world: World) -> None:
    run = world.start(port.greeting)
    assert run.query("languages") == [Language.CHINESE, Language.ENGLISH]
    assert run.ask(port.set_language, Language.CHINESE) == {"previous": Language.ENGLISH}
    assert run.query("language") == Language.CHINESE
    assert run.ask(port.set_language_using_service, Language.ARABIC) == {"previous": Language.CHINESE}
    assert run.query("languages") == [Language.ARABIC, Language.CHINESE, Language.ENGLISH]
    run.send(port.approve, "Ada")
    assert run.result() == "مرحبا بالعالم"


def test_an_update_that_is_refused_changes_nothing(world: World) -> None:
    run = world.start(port.greeting)
    assert run.ask(port.set_language, Language.ARABIC) == {"refused": "ARABIC is not supported"}
    assert run.ask(port.set_language_using_service, Language.SPANISH) == {"refused": "SPANISH is not supported"}
    assert run.query("language") == Language.ENGLISH
    run.send(port.approve, "Ada")
    assert run.result() == "Hello, world"


def test_an_approval_does_not_overtake_an_update_in_progress(world: World) -> None:
    with world.mock(port.call_greeting_service, returns="Bonjour, monde", takes="8s"):
        run = world.start(port.greeting)
        run.send(port.set_language_using_service, Language.FRENCH)
        run.send(port.approve, "Ada")
        world.skip("5s")
        assert run.status != "completed"
        assert run.result() == "Bonjour, monde"
    with pytest.raises(HasEnded):
        run.send(port.approve, "Bob")


def test_a_service_that_is_away_refuses_the_update_and_not_the_workflow(world: World) -> None:
    with world.mock(port.call_greeting_service, raises=ConnectionError("reset")):
        run = world.start(port.greeting)
        assert run.ask(port.set_language_using_service, Language.FRENCH) == {"refused": "FRENCH is not supported"}
    run.send(port.approve, "Ada")
    assert run.result() == "Hello, world"


@pytest.mark.slow
@pytest.mark.perdure(crash_at=None)
def test_the_program_does_what_the_starter_of_the_introduction_does(tmp_path: Path) -> None:
    ended = Program("greetings.py", [], tmp_path, {"PYTHONIOENCODING": "utf-8"}).finish()
    assert (ended.returncode, ended.stderr) == (0, ""), sys.version
    assert ended.stdout.splitlines() == [
        "supported languages: ['CHINESE', 'ENGLISH']",
        "language changed: ENGLISH -> CHINESE",
        "language changed: CHINESE -> ARABIC",
        "مرحبا بالعالم",
    ]
