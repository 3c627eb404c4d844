"""What a task logs arrives with its level, its job and its tag; an application's own configuration of logging wins."""

from dataclasses import replace

import pytest

from tests.support.running import until

#: imports logging as it is loaded
EAGER = """
import logging
log = logging.getLogger("shop.mail")
def speak():
    log.debug("a debug")
    log.info("an info")
    log.warning("a warning: %s", "late")
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("an error")
def basic():
    logging.basicConfig(format="own %(levelname)s %(message)s")
    log.info("too low")
    log.warning("mine")
    return [type(h).__name__ for h in logging.getLogger().handlers], logging.getLogger().level
def by_dict():
    import logging.config
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False,
        "handlers": {"h": {"class": "logging.StreamHandler"}}, "root": {"level": "INFO", "handlers": ["h"]}})
    log.info("by dict")
    return [type(h).__name__ for h in logging.getLogger().handlers], logging.getLogger().level
"""
LAZY = "def speak():\n    import logging\n    logging.info('an info')\n    logging.warning('a warning')\n"
OWN = "import logging, sys\nlogging.basicConfig(stream=sys.stdout, format='own %(message)s')\n" + EAGER
BOTH = pytest.mark.parametrize("isolation", ["fork", "process"])


def start(place, text, level="info", **keys):
    (place.app / "shop.py").write_text(text)
    tasks = {name: {"run": f"shop.{name}", "log_tag": "mail"} for name in ("speak", "basic", "by_dict") if name in text}
    change = lambda config: replace(config, logging=replace(config.logging, level=level))  # noqa: E731
    return place.start(tasks=tasks, change=change, **keys)


def records(program, job):
    """What the job has logged; not the line at its end, which may come before."""
    return [each for each in program.records() if each["logger"] == "fusiond.job" and each.get("job") == job]


def lines(program, job):
    return [(record["level"], record["message"]) for record in records(program, job)]


@BOTH
def test_levels_are_kept(place, isolation):
    """Each line has the level that the task gave it, its job, its attempt as a number and its tag."""
    program = start(place, EAGER, isolation=isolation)
    for _ in range(2):
        job = place.enqueue("speak")
        place.result(job)
        seen = until(lambda job=job: (found := lines(program, job)) and len(found) >= 3 and found, program.text)
        assert seen == [("info", "an info"), ("warning", "a warning: late"), ("error", "an error")]
    [failed] = [record for record in records(program, job) if "exception" in record]
    assert failed["exception"].endswith("ZeroDivisionError: division by zero")
    assert failed["job_logger"] == "shop.mail"
    one = records(program, job)[0]
    assert (one["attempt"], one["log_tag"], one["task"]) == (1, "mail", "speak")


@BOTH
def test_fields_of_a_record_are_kept(place, isolation):
    """What `extra=` gives stands under its name; a number is one; what is fusiond's own wins; a bad value is a text."""
    extra = "{'order': 7, 'rate': float('nan'), 'what': object, 'task': 'mine', 'level': 'x', 'customer': 'Ann'}"
    program = start(
        place, f"import logging\ndef speak():\n    logging.warning('one\\ntwo', extra={extra})\n", isolation=isolation
    )
    job = place.enqueue("speak")
    place.result(job)
    until(lambda: lines(program, job) == [("warning", "one\ntwo")], program.text)
    one = records(program, job)[0]
    assert (one["order"], one["rate"], one["what"], one["customer"]) == (7, "nan", "<class 'object'>", "Ann")
    assert (one["task"], one["level"], one["attempt"]) == ("speak", "warning", 1)


@BOTH
def test_job_that_imports_logging_itself(place, isolation):
    """Nothing has loaded it before: its first line counts as well."""
    program = start(place, LAZY, isolation=isolation)
    job = place.enqueue("speak")
    place.result(job)
    until(lambda: lines(program, job) == [("info", "an info"), ("warning", "a warning")], program.text)


def test_level_of_the_group_decides(place):
    """Also when it changes in place."""
    program = start(place, EAGER, level="error", link=True, ready=False)
    program.heard("ready")
    job = place.enqueue("speak")
    place.result(job)
    until(lambda: lines(program, job), program.text)
    assert {level for level, _ in lines(program, job)} == {"error"}
    program.apply_config(replace(program.config, logging=replace(program.config.logging, level="debug")))
    job = place.enqueue("speak")
    place.result(job)
    until(lambda: ("debug", "a debug") in lines(program, job), program.text)


@BOTH
@pytest.mark.parametrize(("task", "level", "said"), [("basic", 30, "own WARNING mine"), ("by_dict", 20, "by dict")])
def test_application_that_configures_logging_in_a_job(place, isolation, task, level, said):
    """Ours goes, and its level with it; there is one line, not two."""
    program = start(place, EAGER, isolation=isolation)
    job = place.enqueue(task)
    assert place.result(job) == [["StreamHandler"], level]
    assert until(lambda: lines(program, job), program.text) == [("info", said)]


def test_application_that_has_configured_logging(place):
    """Nothing of ours is put beside it."""
    program = start(place, OWN)
    job = place.enqueue("speak")
    place.result(job)
    seen = until(lambda: (found := lines(program, job)) and len(found) >= 4 and found, program.text)
    assert seen[0] == ("info", "own a warning: late")


def test_tag_of_the_producer_wins(place):
    """It marks every line of the job, and what the dispatcher says of it."""
    program = start(
        place, EAGER.replace("def speak():", "def speak(fail=False):\n    if fail: print(1); raise OSError")
    )
    job = place.enqueue("speak", True, header={"log_tag": "urgent"})
    place.error(job)
    seen = until(lambda: [r for r in program.records() if r.get("job") == job and r["level"] == "error"], program.text)
    assert [record["log_tag"] for record in seen] == ["urgent"]
    assert seen[0]["attempt"] == 1


def test_a_long_record_is_one_line(place):
    """It keeps its level and all that it says; what is longer still is cut at its end, and says by how much."""
    text = "import logging\ndef speak(n):\n    logging.warning('é' * n)\n"
    program = start(place, text)
    job, longer = place.enqueue("speak", 20_000), place.enqueue("speak", 40_000)
    place.result(longer)
    until(lambda: lines(program, job) == [("warning", "é" * 20_000)], program.text)
    [(_, said)] = until(lambda: lines(program, longer), program.text)
    assert said.endswith("é… (7232 more characters)")


def test_a_logger_with_a_handler_of_its_own_appears_once(place):
    """What its handler has printed is not logged a second time; a handler that writes elsewhere changes nothing."""
    text = (
        "import logging\nlog = logging.getLogger('shop')\nlog.addHandler(logging.StreamHandler())\n"
        "quiet = logging.getLogger('quiet')\nquiet.addHandler(logging.NullHandler())\n"
        "def speak():\n    log.warning('once')\n    log.getChild('a').warning('below')\n    quiet.warning('quiet')\n"
    )
    program = start(place, text)
    job = place.enqueue("speak")
    place.result(job)
    wanted = [("info", "once"), ("info", "below"), ("warning", "quiet")]
    until(lambda: lines(program, job) == wanted, program.text)


def test_a_record_that_cannot_be_formatted_is_one_entry(place):
    """It keeps its level, and says what is wrong; a long traceback keeps its beginning and its end."""
    text = (
        "import logging\ndef speak():\n    logging.warning('x %d', 'no')\n"
        "    try: raise ValueError('é' * 50_000)\n    except ValueError: logging.exception('long')\n"
    )
    program = start(place, text)
    job = place.enqueue("speak")
    place.result(job)
    wanted = [("warning", "x %d (its arguments do not fit: TypeError)"), ("error", "long")]
    until(lambda: lines(program, job) == wanted, program.text)
    said = records(program, job)[1]["exception"]
    assert said.startswith("Traceback")
    assert "characters …" in said
