"""Claims about giving something a time in which to happen."""

import pytest

from perdure import Timeout
from perdure.core.errors import BadValue
from perdure.service.store_access import with_timeout


async def test_a_timeout_of_something_else_is_not_taken_for_this_one() -> None:
    with pytest.raises(TimeoutError, match="the network's") as raised:
        async with with_timeout(100, "the answer"):
            raise TimeoutError("the network's")
    assert not isinstance(raised.value, Timeout)


async def test_a_time_that_is_none_is_refused_before_anything_is_done() -> None:
    done: list[str] = []
    with pytest.raises(BadValue, match="timeout: 'soon'"):
        async with with_timeout("soon", "the answer"):
            done.append("something")
    assert not done
