"""Claims about the sentence of a schedule: common forms are said in words, and all others as they are written."""

from datetime import UTC, datetime

import pytest

from perdure.service.triggers.schedule_sentences import schedule_sentence
from perdure.service.triggers.trigger_records import ScheduleConfig


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/7 * * * *", "cron */7 * * * *"),
        ("@hourly", "every hour at minute 0"),
        ("0 */6 * * *", "every 6 hours at minute 0"),
        ("@daily", "every day at 00:00"),
        ("0 9 * * 1-5", "from Monday to Friday at 09:00"),
        ("30 8,12 * * MON,FRI", "on Monday and Friday at 08:30 and 12:30"),
        ("@weekly", "on Sunday at 00:00"),
        ("0 0 1,15 * *", "on day 1 and 15 of each month at 00:00"),
        ("0 6 1 1,7 *", "on day 1 of January and July at 06:00"),
        ("0 0 L * *", "on the last day of each month at 00:00"),
        ("0 0 1 * 1", "cron 0 0 1 * 1"),
        ("0 9-17 * * 1-5", "from Monday to Friday every hour from 09:00 to 17:00"),
        ("*/5 9-17 * * *", "every 5 minutes from 09:00 to 17:55"),
        ("* 0-3 * * *", "every minute from 00:00 to 03:59"),
        ("*/7 9-17 * * *", "cron */7 9-17 * * *"),
        ("5 9-12,14 * * *", "cron 5 9-12,14 * * *"),
    ],
)
def test_a_cron_expression_is_said_in_words_with_its_zone(cron: str, said: str) -> None:
    assert schedule_sentence(ScheduleConfig(cron=cron, timezone="Europe/Berlin")) == f"{said}, Europe/Berlin"


def test_intervals_lists_of_times_jitter_and_bounds_are_said() -> None:
    assert schedule_sentence(ScheduleConfig(every_s=3600.0)) == "every hour"
    assert schedule_sentence(ScheduleConfig(every_s=90.0, jitter_s=60.0)) == "every 90 seconds, up to 1 minute later"
    first, second = datetime(2027, 1, 1, tzinfo=UTC), datetime(2027, 1, 2, tzinfo=UTC)
    assert schedule_sentence(ScheduleConfig(once=(first,))) == "once, at 2027-01-01T00:00:00Z"
    assert schedule_sentence(ScheduleConfig(once=(second, first))) == "2 times, from 2027-01-01T00:00:00Z to 2027-01-02T00:00:00Z"
    bounded = ScheduleConfig(cron="@daily", starts_at_s=first.timestamp(), ends_at_s=second.timestamp())
    assert schedule_sentence(bounded) == "every day at 00:00, UTC, from 2027-01-01T00:00:00Z on, until 2027-01-02T00:00:00Z"
