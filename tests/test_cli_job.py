import pytest

from tests.fusiond_desk import opened


@pytest.fixture
def desk(broker_settings, tmp_path):
    with opened(broker_settings, tmp_path) as desk:
        yield desk


def test_list_shows_jobs_by_queue_and_status(desk):
    """Each job with its state; filters by queue and by status."""
    desk.enqueued("send", "1")
    failed = desk.fail()
    waiting, later, report = desk.enqueued("send", "2"), desk.enqueued("send", "--in", "1h"), desk.enqueued("report")
    listed = {job["id"]: job["status"] for job in desk.fusiond("job", "list", "--json").json}
    ids = [name.rpartition("/")[2] for name in (failed, waiting, later, report)]
    assert [listed[id_] for id_ in ids] == ["failed", "queued", "scheduled", "queued"]
    lines = desk.fusiond("job", "list", "--status", "failed", "--queue", "default").out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(failed)
    assert "ValueError: no stock" in lines[1]
    assert "\x1b" not in "".join(lines)


def test_list_is_bounded(desk):
    """--limit of each queue and status."""
    for _ in range(3):
        desk.enqueued("send")
    assert len(desk.fusiond("job", "list", "--limit", "2", "--json").json) == 2


def test_show_tells_everything(desk):
    """By its full name or by its id, for people and for programs."""
    desk.enqueued("send", "+49", "code=1", "--priority", "high")
    name = desk.fail()
    text = desk.fusiond("job", "show", name).out
    assert 'send("+49", code="1")' in text
    assert "ValueError: no stock" in text
    assert "ago" in text or "now" in text
    (job,) = desk.fusiond("job", "show", "--json", "--", name.rpartition("/")[2]).json
    assert (job["args"], job["kwargs"], job["priority"], job["attempts"]) == (["+49"], {"code": "1"}, 2, 1)
    assert job["error"]["type"] == "ValueError"


@pytest.mark.parametrize("name", ["default/nothing", "nothing", "nowhere/x", "a b/x", "/", "default/"])
def test_a_job_that_is_not_there_is_one_sentence(desk, name):
    """Whatever is typed as a name: status 1 and what to do."""
    done = desk.fusiond("job", "show", name)
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)


def test_cancel_ends_what_waits_and_asks_what_runs(desk):
    """A waiting job is canceled at once, a running one is asked to end, an ended one is refused with status 1."""
    waiting = desk.enqueued("send")
    assert desk.fusiond("job", "cancel", waiting).out == f"{waiting}: canceled\n"
    assert desk.fusiond("job", "cancel", waiting).status == 1
    running = desk.enqueued("send")
    desk.claim()
    done = desk.fusiond("job", "cancel", running, "--json")
    assert (done.status, done.json) == (0, [{"job": running, "outcome": "asked"}])


def test_requeue_takes_failed_jobs_back(desk):
    """A failed job waits again; one that has not failed is refused."""
    desk.enqueued("send")
    failed = desk.fail()
    assert desk.fusiond("requeue", failed).out == f"{failed}: requeued\n"
    assert desk.run(desk.verbs.counts("default")).queued == 1
    desk.settle("finished")
    done = desk.fusiond("requeue", failed)
    assert done.status == 1
    assert "finished" in done.out


def test_requeue_all_covers_every_queue_or_one(desk):
    """--all of each queue; --queue narrows it down."""
    for task, queue in (("send", "default"), ("report", "reports")):
        for _ in range(3):
            desk.enqueued(task)
            desk.fail(queue)
    assert desk.fusiond("requeue", "--all", "--queue", "reports", "--json").json == {"reports": 3}
    assert desk.fusiond("requeue", "--all").out == "default: 3 jobs requeued\nreports: 0 jobs requeued\n"
    assert desk.run(desk.verbs.counts("default")).queued == 3


@pytest.mark.parametrize("words", [[], ["--all", "default/x"], ["default/x", "--queue", "default"]])
def test_requeue_must_know_which(desk, words):
    """Neither nothing nor both: status 2."""
    assert desk.fusiond("requeue", *words).status == 2


def test_a_name_that_is_no_text_is_one_sentence(desk):
    """Bytes of a command line that are not UTF-8: status 2, no traceback."""
    done = desk.fusiond("job", "show", "default/\udcff")
    assert (done.status, done.err.count("\n")) == (2, 1)
