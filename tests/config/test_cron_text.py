"""The fields of a cron text: the values of each range, and what is said of a field that cannot be read."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from croniter.croniter import CroniterBadDateError
from hypothesis import example, given
from hypothesis import strategies as st

from fusiond.config.cron_text import CronTextError, matcher, written_out

PAGE = Path(__file__).parents[2] / "docs" / "cron.md"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # one value
        ("5-5 2 * * *", "5 2 * * *"), ("5-5/2 2-2 * * *", "5 2 * * *"), ("1,5-5 0-0 * * *", "1,5 0 * * *"),
        ("0 2 10-10 3-3 *", "0 2 10 3 *"), ("0 2 31-L * *", "0 2 31 * *"), ("0 2 * feb-2 mon-MON", "0 2 * 2 1"),
        ("0 2 * * 7-7", "0 2 * * 0"), ("0 2 * * 7-0", "0 2 * * 0"), ("0 2 * * fri-5#2", "0 2 * * 5#2"),
        # a start with a step
        ("5/15 * * * *", "5,20,35,50 * * * *"), ("59/15 20/2 31/3 12/5 6/2", "59 20,22 31 12 6"),
        # beyond the end of the field
        ("57-2 22-2 30-2 nov-feb sat-mon", "57,58,59,0,1,2 22,23,0,1,2 30,31,1,2 11,12,1,2 6,0,1"),
        ("50-10/7 22-4/2 * * *", "50,57,4 22,0,2,4 * * *"), ("0 2 * * 7-2", "0 2 * * 0,1,2"),
        # Sunday at either end
        ("0 2 * * 0-7", "0 2 * * 0,1,2,3,4,5,6"), ("0 2 * * 5-7", "0 2 * * 5,6,0"),
        # a value that is there twice
        ("1,0-2,1 2,2 1,1 1,jan mon,1", "1,0,2 2 1 1 1"),
        # what has no range
        ("* */5 L,l * *", "* */5 L,l * *"), ("0 2 W15 JAN ?", "0 2 15W 1 *"), ("0 2 ? * L5,l7", "0 2 * * L5,L0"),
        ("@daily", "@daily"),
    ],
)  # fmt: skip
def test_each_range_is_written_as_its_values(text, found):
    """Those that cron(8) gives it; one that goes beyond the end of its field continues at the start."""
    assert written_out(text) == found


@given(st.lists(st.from_regex(r"([*?LlW#/,-]|[0-9]{1,2}|sun|FRI|feb){1,5}", fullmatch=True), min_size=5, max_size=5))
@example(["0", "2", "?", "*", "fri#2,L1"])
@example(["0", "2", "*", "*", "sat-mon#5"])
def test_croniter_takes_whatever_is_let_through(fields):
    """A message of croniter never reaches a user."""
    with suppress(CronTextError, CroniterBadDateError):
        matcher(" ".join(fields), datetime(2026, 1, 1)).get_next(datetime)  # noqa: DTZ001 - wall-clock time


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 25 * * *", "the hour 25 is above 23; write 0 to 23"),
        ("1-70 2 * * *", "the minute 70 is above 59; write 0 to 59"),
        ("0 2 0 * *", "the day of month 0 is below 1; write 1 to 31, or L for the last day"),
        ("0 2 * 13 *", "the month 13 is above 12; write 1 to 12, or jan to dec"),
        ("0 2 * * 8", "the weekday 8 is above 7; write 0 to 7, or sun to sat"),
        ("0 2 L-3 * *", "the day of month 'L-3' cannot be read; write * or 1 to 31, or L for the last day"),
        ("0 2 * january *", "the month 'january' cannot be read; write * or 1 to 12, or jan to dec"),
        ("? 2 * * *", "the minute '?' cannot be read; write * or 0 to 59"),
        ("0 2 */0 * *", "the step of the day of month '*/0' is below 1; write a step of 1 or more"),
        ("0 2 15W,16 * *", "the day of month '15W,16' has W in a list; write W with a single day, such as 15W"),
        ("0 2 * * fri#6", "the number after # in 'fri#6' is not 1 to 5; write #1 to #5, such as fri#2"),
        (
            "0 2 5W * 1",
            "the day of month 5W and the weekday 1 cannot be combined; write * for one of the two, or two entries",
        ),
        (
            "0 2 10 * fri#2",
            "the day of month 10 and the weekday fri#2 cannot be combined; write * for one of the two, or two entries",
        ),
        ("0 2 * * mon,fri#2", "the weekday 'mon,fri#2' has a part with # or L and one without; write two entries"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(text, message):
    """With its limits, as a person counts and names the fields."""
    with pytest.raises(CronTextError) as caught:
        written_out(text)
    assert str(caught.value) == message


def reads(field: str, index: int) -> bool:
    """Whether a text may have this as one of its fields."""
    fields = ["*"] * 5
    fields[index] = field
    with suppress(CronTextError):
        return bool(written_out(" ".join(fields)))
    return False


def test_the_page_lists_the_forms_of_a_field():
    """docs/cron.md has a table of them, and each can be read."""
    table = PAGE.read_text().partition("| in a field | means |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [form for row in table.splitlines() for form in re.findall(r"`(.+?)`", row.split(" | ")[0])]
    assert {"*", "?", "L", "28-L", "15W", "fri#2", "L5", "5/15"} <= {*listed}
    assert [form for form in listed if not any(reads(form, index) for index in range(5))] == []
