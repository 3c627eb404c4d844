"""When a cron entry ticks."""

from __future__ import annotations

from tests.rules.rule import Rule


def _rule(code: str, sentence: str, bad: str, good: str, *, warns: bool = True) -> Rule:
    """A rule about one entry `c` of a task `a`."""
    return Rule(
        code,
        "warning" if warns else "error",
        sentence,
        f"cron: {{c: {{task: a, {bad}}}}}\n",
        f"cron: {{c: {{task: a, {good}}}}}\n",
    )


RULES = (
    _rule(
        "bad-schedule",
        "a cron text that cannot be read",
        'schedule: «"99 2 * * *"»',
        'schedule: "59 2 * * *"',
        warns=False,
    ),
    _rule(
        "cron-fields",
        "a cron text that has not five fields",
        'schedule: «"0 0 2 * * *"»',
        'schedule: "0 2 * * *"',
        warns=False,
    ),
    _rule(
        "never-fires", "a date that does not exist", 'schedule: «"0 0 30 2 *"»', 'schedule: "0 0 28 2 *"', warns=False
    ),
    _rule(
        "unknown-timezone",
        "a time zone that there is not",
        'schedule: "@daily", timezone: «Europe/Berln»',
        'schedule: "@daily", timezone: Europe/Berlin',
        warns=False,
    ),
    Rule(
        "unknown-calendar",
        "error",
        "a calendar that is not declared",
        'calendars: {de: {weekends: true}}\ncron: {c: {task: a, schedule: "@daily", not_on: [«ed»]}}\n',
        'calendars: {de: {weekends: true}}\ncron: {c: {task: a, schedule: "@daily", not_on: [de]}}\n',
    ),
    Rule(
        "unknown-country",
        "error",
        "a country, or a part of one, whose holidays the package `holidays` does not have",
        "calendars: {de: {country: DE, subdivision: «Bavria»}}\n",
        "calendars: {de: {country: DE, subdivision: BY}}\n",
    ),
    _rule("every-minute", "a tick in each minute of one hour", 'schedule: «"* 2 * * *"»', 'schedule: "0 2 * * *"'),
    _rule(
        "uneven-step",
        "a step that begins again before it is over",
        'schedule: «"*/7 * * * *"»',
        'schedule: "*/6 * * * *"',
    ),
    _rule(
        "day-or-weekday",
        "a day and a weekday, either of which is enough",
        'schedule: «"0 2 13 * 5"»',
        'schedule: "0 2 13 * *"',
    ),
    _rule(
        "skipped-months",
        "a day that some months or years do not have",
        'schedule: «"0 2 31 * *"»',
        'schedule: "0 2 L * *"',
    ),
    _rule(
        "alert-below-interval",
        "an `alert_if_no_success` that ends before the next tick",
        "every: 1h, alert_if_no_success: «1h»",
        "every: 1h, alert_if_no_success: 3h",
    ),
    _rule(
        "jitter-above-interval",
        "a jitter that reaches beyond the next tick",
        "every: 1m, jitter: «1h»",
        "every: 1m, jitter: 5s",
    ),
    Rule(
        "jitter-above-expires",
        "warning",
        "a jitter after which the job has expired",
        "tasks: {a: {run: x.y, expires: 5m}}\ncron: {c: {task: a, every: 1h, jitter: «10m»}}\n",
        "tasks: {a: {run: x.y, expires: 15m}}\ncron: {c: {task: a, every: 1h, jitter: 10m}}\n",
    ),
    Rule(
        "replace-unique",
        "error",
        "`overlap: replace` of jobs that are `unique` for a time: the canceled job keeps the new one out",
        "tasks: {a: {run: x.y, unique: {by: [], for: 1h}}}\ncron: {c: {task: a, every: 5m, overlap: «replace»}}\n",
        "tasks: {a: {run: x.y, unique: {by: [], until: ended}}}\ncron: {c: {task: a, every: 5m, overlap: replace}}\n",
    ),
    _rule(
        "unbounded-catch-up",
        "`missed: all` without an end to how late a tick may be",
        "every: 1m, missed: «all»",
        "every: 1m, missed: all, starting_deadline: 1d",
    ),
)
