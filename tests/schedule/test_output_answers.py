"""What jobs have printed, asked for over a real Redis, and answered from real files."""

import asyncio
import contextlib
import json
import threading

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.redis.outage import Outage
from fusiond.config.model import Config, JobOutput
from fusiond.inspecting import output_question
from fusiond.inspecting.output_question import ask
from fusiond.kept_output.segments import Piece, SegmentWriter
from fusiond.schedule import output_answers
from fusiond.schedule.output_answers import OutputAnswers
from tests.support.running import PATIENCE, until

DAY = 86_400


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """A busy machine may take longer than people like to wait."""
    monkeypatch.setattr(output_question, "PATIENCE", PATIENCE)


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "output"


@pytest.fixture
def write(directory):
    """Keeps what a job has printed."""
    writer = SegmentWriter(directory)
    yield lambda id_, text, attempt=1: writer.write([Piece("default", id_.encode(), attempt, DAY, text)], 1 << 30)
    writer.close()


@pytest.fixture
def answering(broker_settings, tmp_path, desk, directory):
    """Start a daemon's answers; it can be called for several daemons."""
    with contextlib.ExitStack() as stack:

        def start(daemon="d"):
            ended, loops = threading.Event(), []

            async def serve():
                async with connect_async(broker_settings, tmp_path) as connection:
                    outage = Outage(connection, desk.verbs.keys)
                    config = Config(job_output=JobOutput())
                    answers = OutputAnswers(desk.verbs, connection, config, daemon, directory=directory, outage=outage)
                    task = asyncio.create_task(answers.keep())
                    loops.append((asyncio.get_running_loop(), task))
                    with contextlib.suppress(asyncio.CancelledError):
                        await task
                    ended.set()

            thread = threading.Thread(target=lambda: asyncio.run(serve()))
            thread.start()

            def end():
                loop, task = loops[0]
                loop.call_soon_threadsafe(task.cancel)
                thread.join()

            stack.callback(end)
            until(lambda: desk.run(ask(desk.verbs, "nothing", patience=0.5)).after.get(daemon))

        yield start


def test_a_job_shows_what_it_has_printed(desk, answering, write):
    """In order, with a heading for each attempt, and as JSON; control characters do not reach the terminal."""
    name = desk.enqueued("send")
    id_ = name.rpartition("/")[2]
    answering()
    write(id_, b"one\n\x1b[31mred\n")
    write(id_, b"two\n", attempt=2)
    lines = desk.fusiond("job", "logs", name).out.splitlines()
    assert [line for line in lines if not line.startswith("--")] == ["one", " [31mred", "two"]
    assert [line.split()[2] for line in lines if line.startswith("--")] == ["1", "2"]
    assert desk.fusiond("job", "logs", id_, "--attempt", "2").out.splitlines()[1:] == ["two"]
    assert desk.fusiond("job", "logs", id_, "--tail", "2").out.splitlines()[1::2] == [" [31mred", "two"]
    parts = [json.loads(line) for line in desk.fusiond("job", "logs", id_, "--json").out.splitlines()]
    assert [(part["attempt"], part["text"]) for part in parts] == [(1, "one\n\x1b[31mred\n"), (2, "two\n")]


def test_what_redis_has_no_more_is_still_there(desk, answering, write):
    """A job is kept for minutes, and what it has printed for days."""
    answering()
    write("gone", b"still here\n")
    assert "still here" in desk.fusiond("job", "logs", "gone").out
    assert "no job 'none'" in desk.fusiond("job", "logs", "none").err


def test_much_is_sent_in_parts(desk, answering, write):
    """All of it arrives."""
    answering()
    for number in range(30):
        write("much", f"{number:02} {'x' * 20_000}\n".encode())
    lines = desk.fusiond("job", "logs", "much").out.splitlines()
    assert [line[:2] for line in lines if not line.startswith("--")] == [f"{number:02}" for number in range(30)]


def test_who_follows_sees_what_comes(desk, answering, write, monkeypatch):
    """Until the job has ended."""
    name = desk.enqueued("send")
    id_ = name.rpartition("/")[2]
    answering()
    write(id_, b"first\n")
    real, asked = desk.verbs.__class__.ask_output, []

    def then_more(verbs, token, job, attempt, queue, after):
        if asked:
            write(id_, b"later\n")
            desk.run(desk.verbs.cancel("default", id_))
        asked.append(after)
        return real(verbs, token, job, attempt, queue, after)

    monkeypatch.setattr(desk.verbs.__class__, "ask_output", then_more)
    lines = desk.fusiond("job", "logs", "-f", name).out.splitlines()
    assert lines[1:3] == ["first", "later"]


def test_secret_arguments_are_hidden_in_it(desk, answering, write):
    """As in every other text of a job."""
    desk.run(desk.verbs.enqueue("default", [NewJob("a", "secret", b'[[],{"code":"s3cret-code"}]')]))
    tasks = {"secret": {"queue": "default", "priority": 1, "secret": ["kwargs.code"]}}
    desk.run(desk.verbs.publish_catalogue("d2", "h2", tasks, priorities={}, queues=["default"]))
    answering()
    write("a", b"sent s3cret-code\n")
    assert desk.fusiond("job", "logs", "a").out.splitlines()[1] == "sent •••"


def test_a_host_that_does_not_answer_is_named(desk):
    """It may have the output, and is the one to look at."""
    name = desk.enqueued("send")
    assert "job_output: {}" in desk.fusiond("job", "logs", name).err
    desk.run(desk.verbs.keep_output("d", "web2"))
    desk.run(plain(as_is, "EXPIRE", f"{desk.verbs.keys.outputs}:d", 30 * DAY - 3 * 3600 - 5))
    assert "web2, last seen 3h ago" in desk.fusiond("job", "logs", name).err


def forged(job="a", place=None):
    """A question that nobody asks; `job` and `place`: as they stand in its JSON."""
    return b'{"token":"%b","job":"%b","attempt":null,"queue":null,"after":{"d":%b}}' % (
        b"x" * 22, job.encode(), json.dumps(place).encode(),
    )  # fmt: skip


NO_QUESTIONS = [b"", b"[]", b"{}", b'{"token":1}', b"\xff", b"[" * 100_000, b'{"token":"x"}']


@pytest.mark.parametrize(
    "message", [*NO_QUESTIONS, forged("\\ud800"), forged(place="[1e999,0,0,0,0]"), forged(place="[NaN,0,0,0,0]")]
)
def test_a_forged_question_ends_nothing(message):
    """Whoever reaches Redis can send one."""
    assert output_answers._question(message, "d") is None
    assert output_answers._question(forged(), "d").job == b"a"


def test_a_forged_place_opens_no_other_file(directory, write):
    """The name in it is compared, and never opened."""
    write("a", b"one\n")
    place = json.dumps([0, "../../etc/passwd", 0, 0, 0])
    message = json.dumps(
        {"token": "x" * 22, "job": "a", "attempt": None, "queue": None, "after": {"d": place}}
    ).encode()
    question = output_answers._question(message, "d")
    answers = OutputAnswers(None, None, Config(), "d", directory=directory, outage=None)
    assert [part.text for part in answers._found(question).parts] == ["one\n"]
