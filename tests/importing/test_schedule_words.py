import pytest

from fusiond.config.lint.schedules import schedule_problem
from fusiond.importing.schedule_words import interval, timing

#: as Fugit 1.11 turns them into cron texts
PHRASES = {
    "every minute": "* * * * *",
    "every 5 minutes": "*/5 * * * *",
    "every 30 minutes": "*/30 * * * *",
    "every 60 minutes": "0 * * * *",
    "every hour": "0 * * * *",
    "every hour at minute 12": "12 * * * *",
    "every 4 hours": "0 */4 * * *",
    "every 12h": "0 */12 * * *",
    "every day": "0 0 * * *",
    "every day at 04:00": "0 4 * * *",
    "every day at 4:15am": "15 4 * * *",
    "every day at 7pm": "0 19 * * *",
    "every day at noon": "0 12 * * *",
    "every day at midnight": "0 0 * * *",
    "at 5am every day": "0 5 * * *",
    "every sunday at noon": "0 12 * * 0",
    "every weekday at 9am": "0 9 * * 1-5",
    "every monday and thursday at 10:30 pm": "30 22 * * 1,4",
    "every day at 9am and 5pm": "0 9,17 * * *",
    "every month on day 2 at 10:00": "0 10 2 * *",
    "every week": "0 0 * * 0",
    "every year": "0 0 1 1 *",
    "10 2,8,14,20 * * *": "10 2,8,14,20 * * *",
    "0 30 6 * * *": "30 6 * * *",
    "@daily": "@daily",
}


@pytest.mark.parametrize("phrase", PHRASES)
def test_a_phrase_is_a_schedule(phrase):
    """One that the loader takes."""
    assert timing(phrase) == {"schedule": PHRASES[phrase]}
    assert schedule_problem(PHRASES[phrase]) is None


@pytest.mark.parametrize(
    ("text", "every"),
    [("every 30 seconds", "30s"), ("every 90 minutes", "90m"), ("every 2 days", "2d"), ("every 2 weeks", "14d"),
     ("*/15 * * * * *", "15s"), ("every 60 seconds", "60s")],
)  # fmt: skip
def test_what_no_cron_text_says_is_an_interval(text, every):
    """Seconds, and what does not divide an hour or a day."""
    assert timing(text) == {"every": every}


@pytest.mark.parametrize(
    ("text", "zone", "schedule"),
    [("0 6 * * 1-5 America/Chicago", "America/Chicago", "0 6 * * 1-5"), ("30 0 6 * * * UTC", "UTC", "30 0 6 * * *"),
     ("every day at 5pm in Europe/Berlin", "Europe/Berlin", "0 17 * * *")],
)  # fmt: skip
def test_a_zone_may_follow(text, zone, schedule):
    """As Fugit and Rufus have it."""
    assert timing(text) == {"schedule": schedule, "timezone": zone}


@pytest.mark.parametrize("text", ["every other tuesday", "every day at 9:00 and 17:30", "now and then", "30 0 6 * * *"])
def test_what_is_no_schedule_is_left_to_the_loader(text):
    """It refuses it, with the reason, and the entry becomes a comment."""
    assert schedule_problem(timing(text)["schedule"]) is not None


def test_durations_of_rufus():
    """One or several units."""
    assert interval("1h30m") == {"every": "5400s"}
    assert interval("1w") == {"every": "604800s"}
    assert interval("soon") == {"every": "soon"}
