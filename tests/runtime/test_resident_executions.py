"""Claims about what an engine knows of one execution: when time alone makes it go on."""

from perdure.code.step_environment import StepControl
from perdure.core.operations import CallOperation
from perdure.core.paths import Key
from perdure.runtime.resident_executions import ResidentExecution
from perdure.runtime.store_clock import StoreClock
from tests.core.scripted_execution import NOW_S, ScriptedExecution, opens, path


def test_an_execution_whose_try_began_late_sleeps_until_its_time_is_over() -> None:
    story = ScriptedExecution({"start": [opens("pay", CallOperation("pay", timeout_s=5.0)), opens("other", CallOperation("other", timeout_s=7.5))]})
    story.begin()
    clock = StoreClock(lambda: 100.0)
    clock.take_answer(NOW_S, 100.0)
    resident = ResidentExecution(Key("t", "w", "1"), exists=True)
    resident.execution = story.execution
    life = resident.step_controls[path("pay")] = StepControl(lambda _: None)
    life.began_s = 100.0
    assert resident.wake_at(clock, lambda: 101.0) == NOW_S + 5.0, "a try that began in time has its time"
    life.began_s = 102.0
    assert NOW_S + 7.0 < (resident.wake_at(clock, lambda: 105.0) or 0.0) < NOW_S + 7.1
    life.began_s = 104.0
    assert resident.wake_at(clock, lambda: 105.0) == NOW_S + 7.5, "what is due before that wakes it"
    assert resident.wake_at(clock, lambda: 110.0) == NOW_S + 5.0, "a try that has had its time is given up at once"
