"""Claims about steps that fork, while executions run: no child can use or harm what its parent has open, and each can open its own."""

import json
from pathlib import Path

import pytest

from perdure.core import events as e
from tests.runtime.forking_program import EXECUTIONS
from tests.runtime.kill_storm import every_try_was_announced, is_sound
from tests.runtime.processes import ProcessDirectory


@pytest.mark.slow
def test_steps_that_fork_and_spawn_harm_neither_the_engine_nor_the_file(tmp_path: Path) -> None:
    with ProcessDirectory(tmp_path) as stage:
        program = stage.begin("tests.runtime.forking_program", stage.url)
        assert program.until_ended() == 0, program.complained
        assert program.complained == ""
        results = json.loads(program.said)
        assert {name: result for name, result in results.items() if name.startswith("forker")} == {
            f"forker {number}": [0] * (4 + (number == 0)) for number in range(EXECUTIONS)
        }
        assert len(results) == 2 * EXECUTIONS
        histories = stage.histories()
        for history in histories.values():
            is_sound(history)
            assert not any(isinstance(event, e.InterruptedEvent) for event in history.events)
        every_try_was_announced(stage.effects(), histories)
