"""An expression in words: read these as a person would."""

import pytest

from mainspring.timing.cron import Cron


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("* * * * *", "Every minute"),
        ("* * * * * *", "Every second"),
        ("*/10 * * * * *", "Every 10 seconds"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("0,30 * * * *", "Every 30 minutes"),
        ("*/7 * * * *", "Every 7 minutes from minute 0 through 56 of every hour"),
        ("5-8,19,20,35-41 * * * *", "At minutes 5 through 8, 19, 20 and 35 through 41 of every hour"),
        ("5,10 * * * * *", "At seconds 5 and 10 of every minute"),
        ("10-20 * * * * *", "Every second from second 10 through 20 of every minute"),
        ("30 */5 * * * *", "At second 30, every 5 minutes"),
        ("* 30 9 * * *", "Every second of the minute 09:30"),
        ("*/10 */5 * * * *", "Every 10 seconds of every 5th minute from minute 0 through 55 of every hour"),
        ("*/10 * 9-16 * * *", "Every 10 seconds between 09:00 and 16:59"),
        ("@hourly", "Every hour"),
        ("30 * * * *", "At 30 minutes past every hour"),
        ("15 10 * * * *", "At 10 minutes and 15 seconds past every hour"),
        ("0 */2 * * *", "Every 2 hours from 00:00 through 22:00"),
        ("0 */6 * * *", "At 00:00, 06:00, 12:00 and 18:00, every day"),
        ("0 9-17 * * 1-5", "Every hour from 09:00 through 17:00, Monday through Friday"),
        ("*/20 22-2 * * *", "Every 20 minutes between 22:00 and 02:59"),
        ("* 9,17 * * *", "Every minute between 09:00 and 09:59 and between 17:00 and 17:59"),
        ("* 1,3,7,9,20 * * *", "Every minute in the hours 01, 03, 07, 09 and 20"),
        ("0 9 * * *", "At 09:00, every day"),
        ("0,30 9,17 * * *", "At 09:00, 09:30, 17:00 and 17:30, every day"),
        ("5 0 9 * * *", "At 09:00:05, every day"),
        ("0 9 * * mon-fri", "At 09:00, Monday through Friday"),
        ("*/15 9-16 * * mon#1", "Every 15 minutes between 09:00 and 16:59, on the first Monday of the month"),
        ("0 0 * * fri-mon", "At 00:00, Friday through Monday"),
        ("0 0 * * sun,sat", "At 00:00, on Saturdays and Sundays"),
        ("0 22 * * mon-wed,fri", "At 22:00, Monday through Wednesday and Friday"),
        ("0 0 * * friL", "At 00:00, on the last Friday of the month"),
        ("@weekly", "At 00:00, on Sundays"),
        ("@yearly", "At 00:00, on day 1 of January"),
        ("0 12 1,15 * *", "At 12:00, on days 1 and 15 of the month"),
        ("0 0 */2 * *", "At 00:00, on every 2nd day of the month from day 1 through day 31"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        ("0 0 L-3 * *", "At 00:00, 3 days before the last day of the month"),
        ("0 0 15W * *", "At 00:00, on the weekday (Monday to Friday) nearest to day 15 of the month"),
        ("0 0 LW * *", "At 00:00, on the last weekday (Monday to Friday) of the month"),
        ("0 0 L 2 *", "At 00:00, on the last day of February"),
        ("0 12 1 */3 *", "At 12:00, on day 1 of the month, in January, April, July and October"),
        ("0 12 * nov-feb *", "At 12:00, every day from November through February"),
        ("0 12 * 6 sun", "At 12:00, on Sundays, in June"),
        ("0 0 31 2 *", "At 00:00, on day 31 of February, which never comes"),
        ("0 0 1-7 * */7", "At 00:00, on days 1 through 7 of the month and only if that is a Sunday"),
    ],
)
def test_it_says_when_it_is_due(expression: str, said: str) -> None:
    assert Cron(expression).describe() == said


@pytest.mark.parametrize(
    ("expression", "both", "either"),
    [
        (
            "0 0 13 * fri",
            "At 00:00, on day 13 of the month and only if that is a Friday",
            "At 00:00, on day 13 of the month, and also on every Friday",
        ),
        (
            "0 0 1 * 1-5",
            "At 00:00, on day 1 of the month and only if that is a day from Monday through Friday",
            "At 00:00, on day 1 of the month, and also Monday through Friday",
        ),
        (
            "0 0 1 * mon,thu",
            "At 00:00, on day 1 of the month and only if that is a Monday or Thursday",
            "At 00:00, on day 1 of the month, and also on every Monday and Thursday",
        ),
        (
            "0 0 8 jun mon#2",
            "At 00:00, on day 8 of June and only if that is the second Monday of June",
            "At 00:00, on day 8 of June, and also on the second Monday of June",
        ),
        (
            "0 0 13 6,9 fri",
            "At 00:00, on day 13 of the month and only if that is a Friday, in June and September",
            "At 00:00, on day 13 of the month, and also on every Friday, in June and September",
        ),
        (
            "0 0 13 6 fri",
            "At 00:00, on day 13 of June and only if that is a Friday",
            "At 00:00, on day 13 of June, and also on every Friday in June",
        ),
    ],
)
def test_it_says_how_the_two_day_fields_go_together(expression: str, both: str, either: str) -> None:
    assert Cron(expression).describe() == both
    assert Cron(expression, day_match="or").describe() == either
