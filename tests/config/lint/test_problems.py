"""Problems of which the one example of tests/rules is not enough, by their code and place; and how they are shown."""

import os

import pytest

from fusiond.config.lint.reports import as_text
from fusiond.config.load import load
from tests.rules import RULES

#: what every file below has in addition, after its own lines
HEAD = "version: 1\n"
TASK = "tasks: {a: {run: x.y}}\nworkers: {m: {}}\n"
ROOT = "runs-as-root"  # also there whenever the tests are run by root


def found(text, name="fusion.yaml", **environ):
    """The problems of a file, but for that of who runs the tests."""
    loaded = load(name, environ=environ, data=text.encode())
    return [problem for problem in loaded.problems if problem.code != ROOT]


# (code, text, what the caret underlines); each text is wrong in this way and no other
UNIQUE = "tasks: {a: {run: x.y, unique: %s}}\nworkers: {m: {}}\n"
OUTBOX = "tasks: {a: {run: x.y}}\nworkers: {m: {}}\noutboxes: {o: {%s}}\n"
CRON = "cron: {c: {task: a, every: 1h, %s}}\nworkers: {m: {}}\n"
CRON_OF_A = "tasks: {a: {run: x.y}}\n" + CRON
CALENDARS = "calendars: {rest: {weekends: true}}\n"
DAILY = CALENDARS + CRON_OF_A.replace("every: 1h", "schedule: '@daily'")
POOL = "tasks: {a: {run: x.y, pools: {p: 1}}}\nworkers: {m: {}}\n"
CASES = [
    # -- structure
    ("unknown-key", "queues: {a: {defaults: {runn: x}}}\n", "runn"),
    ("missing-key", "tasks: {a: {run: x.y}}\ncron: {c: {task: a}}\n", "c"),
    ("keyword-taken", CRON_OF_A % "kwargs: {day: 1}, inputs: {day: tick.date}", "day"),
    ("keyword-taken", "tasks: {a: {run: x.y, pass_job: day}}\n" + CRON % "inputs: {day: tick.date}", "tick.date"),
    ("bad-value", CRON_OF_A % "inputs: {day: tick.day}", "tick.day"),
    ("exclusive-keys", CALENDARS + CRON_OF_A % "not_on: [rest]", "not_on"),
    ("ignored-key", CALENDARS + CRON_OF_A % "if_excluded: next_day", "if_excluded"),
    ("never-fires", CALENDARS + CRON_OF_A.replace("every: 1h", "schedule: '0 2 * * 6'") % "not_on: [rest]", "not_on"),
    ("duplicate-item", DAILY % "not_on: [rest, rest]", "rest"),
    ("missing-key", "calendars: {de: {subdivision: BY}}\n", "BY"),
    ("unknown-country", "calendars: {de: {country: DX}}\n", "DX"),
    ("bad-value", "calendars: {c: {dates: [2026-02-30]}}\n", "2026-02-30"),
    ("missing-key", "broker: {url: 'rediss://h', tls: {cert_file: /x}}\n", "cert_file"),
    ("exclusive-keys", "broker: {password_file: /x}\n", "password_file"),
    ("exclusive-keys", "broker: {url: 'redis://h', socket_group: x}\n", "socket_group"),
    ("exclusive-keys", "broker: {url: 'redis://h', tls: {}}\n", "tls"),
    ("exclusive-keys", "broker: {url: 'redis://:x@h', password_file: /x}\n", "'redis://:x@h'"),
    ("exclusive-keys", "queues: {q: }\nworkers: {m: {queues: {q: 1}, order: strict}}\n", "order"),
    ("wrong-type", "tasks: {a: {run: a.b, retry: {max_attempts: 3}}}\n", "retry"),
    ("wrong-type", "queues: {a: {max_length: many}}\n", "many"),
    ("wrong-type", "workers: {m: {environment: {A: null}}}\n", "null"),
    ("wrong-type", "retry_policies: {p: {retry_on: ValueError}}\n", "ValueError"),
    ("bad-value", "workers: {a: {order: random}}\n", "random"),
    ("bad-value", "retry_policies: {p: {backoff: expo}}\n", "expo"),
    ("bad-value", "workers: {m: {queues: [default, '*']}}\n", "'*'"),
    ("bad-name", "queues: {'a b': {}}\n", "'a b'"),
    ("bad-name", 'queues: {"a\\n": {}}\n', '"a\\n"'),
    ("out-of-range", "priorities: {high: 256}\n", "256"),
    ("out-of-range", "retry_policies: {p: {max_attempts: 0}}\n", "0"),
    ("out-of-range", "tasks: {a: {run: x.y, timeout: 0s}}\nworkers: {m: {}}\n", "0s"),
    ("out-of-range", "tasks: {a: {run: x.y}}\nworkers: {m: {}}\ncron: {c: {task: a, every: 999ms}}\n", "999ms"),
    ("missing-unit", "tasks: {a: {run: x.y, timeout: '90'}}\n", "'90'"),
    ("missing-unit", "tasks: {a: {run: x.y, timeout: {soft: 90}}}\n", "90"),
    ("missing-unit", "retry_policies: {p: {backoff: [1s, 5]}}\n", "5"),
    ("missing-unit", "workers: {m: {max_memory: 512}}\n", "512"),
    ("empty", "retry_policies: {p: {backoff: []}}\n", "backoff"),
    ("empty", "broker: {url: ''}\n", "''"),
    ("yaml-quote", "workers: {m: {umask: 022}}\n", "022"),
    ("yaml-quote", "broker: {namespace: 12}\n", "12"),
    ("yaml-quote", "tasks: {a: {run: x.y, pass_job: true}}\n", "true"),
    # -- references
    ("unknown-queue", "workers: {m: {queues: [emial]}}\n", "emial"),
    ("unknown-queue", "workers: {m: {queues: {emial: 2}}}\n", "emial"),
    ("unknown-priority", "priorities: {moderate: 1}\nqueues: {default: {defaults: {priority: high}}}\n", "high"),
    # -- schedules
    ("unknown-timezone", TASK + "cron: {c: {task: a, schedule: '@daily', timezone: Europe}}\n", "Europe"),
    ("unknown-timezone", TASK + "cron: {c: {task: a, schedule: '@daily', timezone: ../UTC}}\n", "../UTC"),
    *(
        ("bad-schedule", f"{TASK}cron: {{c: {{task: a, schedule: '{text}'}}}}\n", f"'{text}'")
        for text in (
            "99 * * * *", "a b c d e", "@dayly", "@reboot", "22:30", "H * * * *", "R * * * *",
        )
    ),
    ("ignored-key", TASK + "cron: {c: {task: a, every: 5s, timezone: UTC}}\n", "timezone"),
    # -- the broker
    *(
        ("bad-url", f"broker: {{url: '{url}'}}\n", f"'{url}'")
        for url in (
            "redis+sentinel://h", "redis+sentinel://h/x/y", "redis+cluster://h/1", "sentinel://h/x",
            "redis+cluster://h,", "redis+cluster://h,i:99999", "redis://h,i", "redis://[::1",
            "http://h", "redis://h:99999",
            "redis://h:x", "redis://",
            "redis://h/db", "unix://", "unix://[", "embeded",
            "unix:///x?db=x", "redis://h?socket_timeout=5", "redis://h?ssl_cert_reqs=none",
            "rediss://h?ssl_cert_reqs=some", "redis+cluster://h?db=1", "redis://h?db=1&db=2", "redis://h/9999999999",
            "REDIS://h", "redis://a%00b", "redis://u:a?b@h", "redis://u:1/b@h", "unix:///x%00y",
            "unix://run/x.sock", "unix://u:p/w@/x.sock", "redis://u:a[b@h",
        )
    ),
    ("secret-in-clear", "broker: {url: 'redis://:hunter2@h'}\n", "'redis://:hunter2@h'"),
    # -- traps
    ("yaml-boolean", TASK + "cron: {c: {task: a, every: 5s, kwargs: {x: {y: [on]}}}}\n", "on"),
    ("leading-zero", TASK + "cron: {c: {task: a, every: 5s, args: [0123]}}\n", "0123"),
    ("leading-zero", "workers: {m: {processes: 010, environment: {A: 010}}}\n", "010"),
    ("tilde", "workers: {m: {directory: ~ada}}\n", "~ada"),
    # -- values
    ("short-drain", "tasks: {a: {run: x.y, timeout: 25s}}\nworkers: {m: {}}\n", "m"),
    ("short-drain", TASK.replace("m: {}", "m: {drain_timeout: 60s}"), "60s"),
    ("ignored-key", "retry_policies: {standard: {backoff: [1s], delay: 1s}}\n", "delay"),
    ("reserved-variable", "workers: {m: {slot_variable: GPU, environment: {GPU: 7}}}\n", "GPU"),
    ("ignored-key", "retry_policies: {standard: {max_snooze: 1h}}\n", "max_snooze"),
    ("missing-key", UNIQUE % "{by: [args.0]}", "unique"),
    ("exclusive-keys", UNIQUE % "{until: ended, for: 1m}", "unique"),
    ("bad-value", UNIQUE % "{until: ends}", "ends"),
    ("bad-value", UNIQUE % "{until: ended, by: [user_id]}", "user_id"),
    ("wrong-type", UNIQUE % "{until: ended, by: kwargs.user_id}", "kwargs.user_id"),
    ("out-of-range", UNIQUE % "{for: 0s}", "0s"),
    ("out-of-range", UNIQUE % "{until: ended, on_conflict: replace, max_wait: 0s}", "0s"),
    ("ignored-key", UNIQUE % "{until: ended, max_wait: 5m}", "max_wait"),
    ("unique-argument", UNIQUE % "{until: ended, by: [kwargs.job]}, pass_job: job", "by"),
    ("unique-argument", UNIQUE % "{for: 1m, by: [args.0]}" + "cron: {c: {task: a, every: 5s, args: [1.5]}}\n", "c"),
    ("unknown-exception", "retry_policies: {standard: {snooze_on: [NotReady]}}\n", "NotReady"),
    ("out-of-range", "retry_policies: {standard: {snooze_on: [x.NotReady], max_snooze: 0s}}\n", "0s"),
    ("out-of-range", "workers: {m: {max_age: 0s, isolation: process}}\n", "0s"),
    (
        "ignored-key",
        "queues: {q: {max_running: 2}}\ntasks: {a: {run: x.y, queue: q, limit: {max_running: 3}}}\nworkers: {m: {}}\n",
        "3",
    ),
    ("wrong-type", "tasks: {a: {command: null}}\nworkers: {m: {}}\n", "null"),
    ("empty", "tasks: {a: {command: [cat, $(x)], parameters: {x: {enum: []}}}}\nworkers: {m: {}}\n", "enum"),
    # a pool with a mistake is declared
    ("out-of-range", "pools: {p: {slots: 0}}\n" + POOL, "0"),
    ("limit-of-nothing", "pools: {p: null}\n" + POOL, "null"),
    # -- outboxes
    ("missing-key", OUTBOX % "tasks: [a]", "o"),
    ("exclusive-keys", OUTBOX % "tasks: [a], url: 'postgresql://h/d', url_file: /etc/hostname", "o"),
    ("empty", OUTBOX % "tasks: [], url: 'postgresql://h/d'", "tasks"),
    ("unknown-task", OUTBOX % "tasks: [a, b], url: 'postgresql://h/d'", "b"),
    ("unknown-task", OUTBOX % "tasks: ['b*'], url: 'postgresql://h/d'", "'b*'"),
    *(
        ("bad-url", OUTBOX % f"tasks: [a], url: '{url}'", f"'{url}'")
        for url in (
            "mysql://h/d", "postgresql+psycopg2://h/d", "shop", "sqlite:///shop.db", "sqlite://", "postgresql://h:x/d",
            "postgresql://[h/d",
        )
    ),
    ("exclusive-keys", OUTBOX % "tasks: [a], url: 'sqlite:////d', wake: notify", "wake"),
    ("exclusive-keys", OUTBOX % "tasks: [a], url: 'sqlite:////d', schema: s", "schema"),
    ("out-of-range", OUTBOX % "tasks: [a], url: 'sqlite:////d', poll: 0s", "0s"),
    ("bad-value", OUTBOX % "tasks: [a], url: 'sqlite:////d', table: Orders", "Orders"),
    ("missing-file", OUTBOX % "tasks: [a], url_file: /no/such", "/no/such"),
    # -- usage
    (
        "unserved-queue",
        "queues: {q: {}}\ntasks: {a: {run: x.y}, b: {run: x.y, queue: q}}\nworkers: {m: {queues: [q]}}\n",
        "a",
    ),
    (
        "unserved-queue",
        "tasks: {a: {run: x.y, on_failure: {webhook: 'https://h/x'}}}\nworkers: {m: {queues: [default]}}\n",
        "'https://h/x'",
    ),
    # -- the machine
    ("missing-directory", "logging: {file: /no/such/log}\n", "/no/such/log"),
    ("missing-file", "broker: {url: 'redis://h', password_file: /no/such}\n", "/no/such"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "text", "underlined"), CASES, ids=[f"{code}-{n}" for n, (code, *_) in enumerate(CASES)]
)
def test_each_mistake_is_found_at_its_place_with_a_remedy(code, text, underlined):
    """One mistake, one problem: its code, its exact place, what to do."""
    problems = found(HEAD + text)
    assert [problem.code for problem in problems] == [code], as_text(problems)
    (problem,) = problems
    start = problem.column - 1
    assert problem.excerpt[start : start + problem.width] == underlined
    assert problem.excerpt == (HEAD + text).splitlines()[problem.line - 1]
    assert problem.remedy
    # An argument may well be such a text.
    assert problem.severity == ("warning" if code == "yaml-boolean" else RULES[code].severity)


def test_all_problems_are_told_at_once():
    """Structure, references and schedules: a person sees each of them in one go, sorted by place."""
    problems = found(
        "version: 1\nqueues: {emial: {max_length: -1}}\ntasks: {a: {run: x.y, queue: email, timeout: 5}}\n"
        "cron: {c: {task: b, schedule: '* *'}}\nworkers: {m: {queues: [sms], procesess: 2}}\n"
    )
    assert [problem.code for problem in problems] == [
        "out-of-range", "unknown-queue", "missing-unit", "unknown-task", "cron-fields", "unknown-queue", "unknown-key",
    ]  # fmt: skip
    assert problems == sorted(problems)


def test_did_you_mean():
    """A typing mistake is answered with the nearest name."""
    (problem,) = found("version: 1\nqueues: {email: {}}\ntasks: {a: {run: x.y, queue: emial}}\n")
    assert problem.remedy == "did you mean 'email'?"
    (problem,) = found("version: 1\nworkers: {m: {procesess: 2}}\n")
    assert problem.remedy == "did you mean 'processes'?"


def test_the_text_face_points_at_the_place():
    """file:line:column, severity, sentence, remedy, code; the line; a caret beneath the value."""
    text = as_text(found("version: 1\nqueues: {email: {}}\ntasks: {a: {run: x.y, queue: emial}}\n", name="etc/f.yaml"))
    assert text.splitlines() == [
        "etc/f.yaml:3:30: error: queue 'emial' is not declared; did you mean 'email'?   [unknown-queue]",
        "    3 | tasks: {a: {run: x.y, queue: emial}}",
        "                                     ^^^^^",
    ]


def test_secrets_are_not_shown():
    """Neither a password of a URL nor what a variable held is ever in a problem."""
    problems = found("version: 1\nbroker: {url: 'redis://u:hunter2@h/db', name: x}\n")
    problems += found(
        "version: 1\nbroker: {url: '${URL}', namespace: '${SECRET}'}\n", URL="redis://:hunter2@h:x", SECRET="hunter2 "
    )
    problems += found(
        "version: 1\ntasks: {a: {run: x.y, queue: '${SECRET}', timeout: '${SECRET}'}}\n", SECRET="hunter2"
    )
    assert len(problems) >= 5
    for problem in problems:
        assert "hunter2" not in as_text([problem])
        assert "hunter2" not in str(problem.to_dict())


def test_a_file_cannot_drive_the_terminal():
    """Control characters of a file are never printed as they are."""
    problems = found('version: 1\nqueues: {"\\e[31m": {}, "a\\u202eb": {}}\n')
    assert len(problems) == 2
    assert all(char.isprintable() or char == "\n" for char in as_text(problems))


def test_what_this_machine_lacks_is_an_error_where_it_is_about_to_run(tmp_path):
    """A warning for a linter elsewhere, a refusal here."""
    path = tmp_path / "fusion.yaml"
    path.write_text("version: 1\nworkers: {m: {directory: no, user: no_such_user, python: no/python}}\n")
    for to_run, severity in ((False, "warning"), (True, "error")):
        loaded = load(path, environ=os.environ, to_run=to_run)
        of_machine = [problem for problem in loaded.problems if problem.code != "unsafe-file"]
        assert {problem.severity for problem in of_machine} == {severity}
        assert len(of_machine) == 3
        assert (loaded.config is None) == to_run


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("queues:\u00a0{a: {}}\n", "2:8", "column 8 has the character no-break space (U+00A0): write a blank"),
        (
            "broker: {url: embedded}\n\ufeffqueues: {}\n",
            "3:2",
            "column 1 has the character zero width no-break space (U+FEFF): remove it",
        ),
        ("queues\uff1a\n  a: {}\n", "2:1", "column 7 has the character fullwidth colon (U+FF1A): write :"),
        (
            "tasks: {a: {run: x.y, timeout: 5\u2013s}}\n",
            "2:32",
            "column 33 has the character en dash (U+2013): write -",
        ),
        ("tasks: {a: {run: x.y, timeout: \u201c5s\u201d}}\n", "2:32", 'left double quotation mark (U+201C): write "'),
        ("queues:\n<<<<<<< HEAD\n  a: {}\n=======\n", "3:1", "this line is left over from a merge; resolve"),
    ],
)
def test_what_an_eye_does_not_see_is_named(tmp_path, text, place, said):
    """The sentence about the error alone would lead nowhere."""
    (tmp_path / "fusion.yaml").write_text(f"version: 1\n{text}", encoding="utf-8")
    problem, *_ = load(tmp_path / "fusion.yaml", environ={}).problems
    assert problem.place.endswith(f":{place}")
    assert said in problem.sentence


def test_a_character_of_a_language_is_left_alone(tmp_path):
    """An error beside French or Japanese text is about something else."""
    (tmp_path / "fusion.yaml").write_text("version: 1\ntasks: {a: {run: x.y, log_tag: 'é「名」', timeout: x}}\n")
    problem, *_ = load(tmp_path / "fusion.yaml", environ={}).problems
    assert "character" not in problem.sentence
