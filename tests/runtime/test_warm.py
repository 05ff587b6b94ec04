"""Claims about what an engine knows of one execution: when time alone makes it go on."""

from perdure.core.ops import Call
from perdure.core.paths import Key
from perdure.programs.code.info import StepLife
from perdure.runtime.clock import StoreClock
from perdure.runtime.warm import Warm
from tests.core.stories import NOW_S, Story, opens, path


def test_an_execution_whose_try_began_late_sleeps_until_its_time_is_over() -> None:
    story = Story({"start": [opens("pay", Call("pay", timeout_s=5.0)), opens("other", Call("other", timeout_s=7.5))]})
    story.begin()
    clock = StoreClock(lambda: 100.0)
    clock.take_answer(NOW_S, 100.0)
    warm = Warm(Key("t", "w", "1"), exists=True)
    warm.execution = story.execution
    life = warm.lives[path("pay")] = StepLife(lambda _: None)
    life.began_s = 100.0
    assert warm.wake_at(clock, 101.0) == NOW_S + 5.0, "a try that began in time has its time"
    life.began_s = 102.0
    assert NOW_S + 7.0 < (warm.wake_at(clock, 105.0) or 0.0) < NOW_S + 7.1
    life.began_s = 104.0
    assert warm.wake_at(clock, 105.0) == NOW_S + 7.5, "what is due before that wakes it"
    assert warm.wake_at(clock, 110.0) == NOW_S + 5.0, "a try that has had its time is given up at once"
