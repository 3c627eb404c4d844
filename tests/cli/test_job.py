import pytest

from fusiond.broker.records import NewJob


def test_list_shows_jobs_by_queue_and_status(desk):
    """Each job with its state; filters by queue and by status."""
    desk.enqueued("send", "1")
    failed = desk.fail()
    waiting, later, report = desk.enqueued("send", "2"), desk.enqueued("send", "--in", "1h"), desk.enqueued("report")
    jobs = desk.fusiond("job", "list", "--json").json
    assert {job["name"] for job in jobs} == {f"{job['queue']}/{job['id']}" for job in jobs}
    listed = {job["id"]: job["status"] for job in jobs}
    ids = [name.rpartition("/")[2] for name in (failed, waiting, later, report)]
    assert [listed[id_] for id_ in ids] == ["failed", "queued", "scheduled", "queued"]
    lines = desk.fusiond("job", "list", "--status", "failed", "--queue", "default").out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(failed)
    assert "ValueError: no stock" in lines[1]
    assert "\x1b" not in "".join(lines)


def test_list_is_bounded(desk):
    """--limit of all queues and statuses together, the newest first."""
    failed = desk.enqueued("send")
    desk.fail()
    names = [desk.enqueued("send"), desk.enqueued("report"), desk.enqueued("send", "--in", "1h")]
    listed = [f"{job['queue']}/{job['id']}" for job in desk.fusiond("job", "list", "--limit", "3", "--json").json]
    assert set(listed) == {*names}
    assert failed not in listed


def test_list_shows_no_old_error_of_a_job_that_finished(desk):
    """What an earlier attempt raised is no news once the job has finished."""
    desk.enqueued("send", "+49")
    name = desk.fail()
    desk.fusiond("requeue", name)
    desk.settle("finished")
    [line] = [line for line in desk.fusiond("job", "list").out.splitlines() if line.startswith(name)]
    assert 'send("+49")' in line
    assert "no stock" not in line


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


def test_discard_drops_what_failed(desk):
    """By name or all of a queue; what waits is refused with status 1."""
    waiting = desk.enqueued("send")
    done = desk.fusiond("discard", waiting)
    assert (done.status, done.out) == (1, f"{waiting}: queued, neither failed nor canceled\n")
    desk.fusiond("job", "cancel", waiting)
    soon = f"{waiting}: discarded; deleted when a minute has passed since it ended\n"
    assert desk.fusiond("discard", waiting).out == soon
    desk.enqueued("send")
    desk.fail()
    soon = "default: 1 job discarded, 1 of them deleted when a minute has passed since they ended"
    assert soon in desk.fusiond("discard", "--all").out
    assert desk.fusiond("discard").status == 2


def test_requeue_from_queue_moves_what_waits(desk):
    """To another queue, with what is needed to run it there; a second time there is nothing to move."""
    names = [desk.enqueued("send", str(number)) for number in range(3)]
    done = desk.fusiond("requeue", "--from-queue", "default", "--queue", "reports")
    assert (done.out, done.err, done.status) == ("3 jobs moved from default to reports\n", "", 0)
    assert [desk.claim("reports")[0] for _ in names] == [name.partition("/")[2] for name in names]
    seen = desk.fusiond("requeue", "--from-queue", "default", "--queue", "reports", "--json").json
    assert seen == {"from": "default", "to": "reports", "moved": 0, "running": 0, "taken": [], "served": True}


def test_requeue_from_queue_names_what_it_leaves(desk):
    """Jobs that run, those whose id another job has there, and a target that nothing serves."""
    desk.enqueued("send", "running")
    desk.run(desk.verbs.renew("default", [desk.claim()], 3_600_000))
    job, _, left = (desk.enqueued("send", "a", "--key", "k"), desk.enqueued("send", "b"), desk.enqueued("send", "c"))
    id_ = job.partition("/")[2]
    desk.run(desk.verbs.enqueue("reports", [NewJob(id_, "report", b"[]")]))
    desk.serve("default")
    done = desk.fusiond("requeue", "--from-queue", "default", "--queue", "reports")
    assert (done.out, done.status) == ("2 jobs moved from default to reports\n", 1)
    assert "1 job of that queue still runs" in done.err
    assert f"another job of the same id: default/{id_}" in done.err
    assert "no living worker group serves queue 'reports' either" in done.err
    assert desk.fusiond("job", "show", f"reports/{left.partition('/')[2]}").status == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--from-queue", "default"), 2),
        (("--from-queue", "default", "--queue", "default"), 2),
        (("--from-queue", "default", "--all"), 2),
        (("--from-queue", "nowhere", "--queue", "default"), 1),
        (("--from-queue", "default", "--queue", "nowhere"), 1),
    ],
)
def test_requeue_from_queue_must_know_both(desk, words, status):
    """Two queues that there are, and nothing else beside them."""
    assert desk.fusiond("requeue", *words).status == status
