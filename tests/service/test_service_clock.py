"""The time of the store as the service knows it: read every few seconds at most, and carried on in between."""

from perdure.service.service_clock import READ_INTERVAL_S, ServiceClock
from perdure.stores.memory import MemoryStore
from perdure.stores.protocol import StoreTime
from perdure.testing.conformance import Clock


class TimedStore(MemoryStore):
    """A store that counts the reads of its time, each of which takes a while by the clock of the process."""

    def __init__(self, clock: Clock, process: Clock, answer_s: float = 0.0) -> None:
        super().__init__(clock)
        self.process, self.answer_s, self.reads = process, answer_s, 0

    async def store_time(self) -> StoreTime:
        self.reads += 1
        told = await super().store_time()
        self.process.advance(self.answer_s)
        return told


async def test_the_time_is_read_once_in_an_interval_and_goes_on_in_between() -> None:
    clock, process = Clock(), Clock(50.0)
    store = TimedStore(clock, process)
    known = ServiceClock(store, process)
    for _ in range(10):
        await known.refresh()
        assert known.now_s() == clock.now_s
        clock.advance(READ_INTERVAL_S / 20)
        process.advance(READ_INTERVAL_S / 20)
    assert store.reads == 1
    process.advance(READ_INTERVAL_S)
    await known.refresh()
    assert store.reads == 2


async def test_the_time_is_the_latest_that_it_can_be_in_the_store() -> None:
    process = Clock(50.0)
    clock = Clock()
    known = ServiceClock(TimedStore(clock, process, answer_s=0.25), process)
    await known.refresh()
    assert known.now_s() == clock.now_s + 0.25


async def test_a_store_whose_clock_was_set_is_followed_by_the_next_reading() -> None:
    clock, process = Clock(), Clock(50.0)
    known = ServiceClock(MemoryStore(clock), process)
    for set_by_s in (0, -3600, 7200):
        clock.advance(set_by_s)
        process.advance(READ_INTERVAL_S)
        await known.refresh()
        assert known.now_s() == clock.now_s
