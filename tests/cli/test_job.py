import re

import pytest

from fusiond.broker.records import NewJob, Outcome
from fusiond.job import mark_of, new_token
from fusiond.owners import Owner
from tests.support.job_text import change_job
from tests.support.running import until


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
    lines = desk.fusiond("job", "list", "--status", "failed", "--queue", "default", "--wide").out.splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(failed)
    assert "ValueError: no stock" in lines[1]
    assert "\x1b" not in "".join(lines)


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


def test_show_has_the_history(desk):
    """Each attempt that did not finish, what the last failure has printed, and who had the lease that was lost."""
    name = desk.enqueued("send")
    queue, _, id_ = name.partition("/")
    _, token = desk.claim()
    about = b',"host":"box","began":10,"ended":2030,"with":"40,12,7,","error":"ValueError: no stock"'
    error = b'{"code":"EXCEPTION","type":"ValueError","message":"no stock","traceback":""}'
    desk.run(desk.verbs.settle(queue, [Outcome(id_, token, "retry", 0, 0, error, "", about, b'"one\\ntwo\\n"')]))
    desk.run(desk.verbs.announce("far.7", {"group": "main"}))
    token = new_token(mark_of("far.7"))
    desk.run(desk.verbs.claim(queue, 1, dispatcher="d", nonce=token, lease_ms=1, max_rescues=3))
    until(lambda: desk.run(desk.verbs.rescue(queue)).reclaimed)
    text = desk.fusiond("job", "show", name, "--wide").out
    lines = [line.split() for line in text.splitlines()]
    rest = ["HOST", "OUTCOME", "ERROR"]
    assert ["ATTEMPT", "BEGAN", "RAN", "CPU", "MEMORY", "GENERATION", *rest] in lines
    said = ["2s", "40ms", "12", "MiB", "7", "box", "retry", "ValueError:", "no", "stock"]
    assert said in [line[-10:] for line in lines if line[:1] == ["1"]]
    assert [line[-2:] for line in lines if line[:1] == ["2"]] == [["far", "rescued"]]
    assert ["output", "of", "attempt", "1", "one"] in lines
    (job,) = desk.fusiond("job", "show", "--json", name).json
    assert [(past["attempt"], past["outcome"], past["host"]) for past in job["history"]] == [
        (1, "retry", "box"),
        (2, "rescued", "far"),
    ]
    assert job["printed"] == "one\ntwo\n"


def test_show_tells_how_far_a_job_is(desk):
    """As the job has said last, for people and for programs."""
    name = desk.enqueued("send")
    _, token = desk.claim()
    queue, _, id_ = name.partition("/")
    desk.run(desk.verbs.report(queue, [(id_, token, 0.4, "rows 2 of 5")]))
    assert re.search(r"^progress +40% rows 2 of 5, ", desk.fusiond("job", "show", name).out, re.MULTILINE)
    (job,) = desk.fusiond("job", "show", "--json", name).json
    assert (job["progress"]["share"], job["progress"]["message"]) == (0.4, "rows 2 of 5")


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


def test_a_job_that_waits_gets_another_priority(desk):
    """By name or number; what cannot be changed is named, does not hold up the rest, and the status is 1."""
    running = desk.enqueued("send")
    desk.claim()
    first, second = desk.enqueued("send"), desk.enqueued("send")
    assert (
        desk.fusiond("job", "priority", second, "high").out
        == f"{second}: prioritized; it has priority 2 now, and higher ones go first\n"
    )
    done = desk.fusiond("job", "priority", "default/none", running, first, "9", "--json")
    assert (done.status, "no job 'default/none'" in done.err) == (1, True)
    assert done.json == [{"job": running, "prioritized": False}, {"job": first, "prioritized": True}]
    shown = desk.fusiond("job", "show", "--json", first, second).json
    assert [job["priority"] for job in shown] == [9, 2]
    done = desk.fusiond("job", "priority", first, "higher")
    assert (done.status, "neither one of" in done.err) == (1, True)


def test_requeue_takes_failed_jobs_back(desk):
    """A failed job waits again; one that has not failed is refused."""
    desk.enqueued("send")
    failed = desk.fail()
    assert desk.fusiond("requeue", failed).out == f"{failed}: requeued\n"
    assert desk.run(desk.verbs.counts("default")).queued == 1
    desk.settle("finished")
    done = desk.fusiond("requeue", failed)
    assert done.status == 1
    assert "finished, neither failed nor canceled; enqueue it again" in done.out


def test_requeue_all_covers_every_queue_or_one(desk):
    """--all of each queue; --queue narrows it down."""
    for task, queue in (("send", "default"), ("report", "reports")):
        for _ in range(3):
            desk.enqueued(task)
            desk.fail(queue)
    assert desk.fusiond("requeue", "--all", "--queue", "reports", "--json", "--yes").json == {"reports": 3}
    assert desk.fusiond("requeue", "--all").status == 2
    assert desk.run(desk.verbs.counts("default")).failed == 3
    assert desk.fusiond("requeue", "--all", "--yes").out == "default: 3 jobs requeued\n"
    assert desk.run(desk.verbs.counts("default")).queued == 3


def test_discard_drops_what_failed(desk):
    """By name or all of a queue; what waits is refused with status 1."""
    waiting = desk.enqueued("send")
    done = desk.fusiond("discard", waiting)
    assert (done.status, done.out) == (1, f"{waiting}: queued, neither failed nor canceled\n")
    desk.fusiond("job", "cancel", waiting)
    soon = f"{waiting}: discarded; to be deleted, a minute after its end at the earliest\n"
    assert desk.fusiond("discard", waiting).out == soon
    desk.enqueued("send")
    desk.fail()
    soon = "default: 1 job discarded; 1 of them to be deleted, a minute after its end at the earliest\n"
    assert soon in desk.fusiond("discard", "--all", "--yes").out
    assert desk.fusiond("discard").status == 2


def test_discard_of_all_asks_first(desk):
    """Without a terminal and without --yes nothing is discarded; without a failed job there is nothing to ask."""
    assert desk.fusiond("discard", "--all").status == 0
    failed = desk.enqueued("send")
    desk.fail()
    done = desk.fusiond("discard", "--all", "--queue", "default")
    asked = "fusiond: this would discard 1 failed job of queue default; give --yes to do it\n"
    assert (done.status, done.err) == (2, asked)
    assert desk.fusiond("discard", failed).out.startswith(f"{failed}: discarded")


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
    assert f"another job of the same id, or one that has its lock (`unique`): default/{id_}" in done.err
    assert "no living worker group serves queue 'reports' either" in done.err
    assert desk.fusiond("job", "show", f"reports/{left.partition('/')[2]}").status == 0


def test_delete_takes_what_has_ended(desk):
    """By name, finished ones too; a waiting job stays. A minute after its end a job is gone."""
    desk.enqueued("send")
    finished = desk.settle("finished", result=1)
    waiting = desk.enqueued("send")
    change_job(desk.run, desk.verbs.keys.of("default", "job", finished.rpartition("/")[2]), ended_at=1)
    done = desk.fusiond("job", "delete", finished, waiting)
    assert (done.status, done.out) == (1, f"{finished}: deleted\n{waiting}: queued, it has not ended\n")
    assert desk.fusiond("job", "show", finished).status == 1


def test_delete_by_status_asks_first(desk):
    """All that ended so, of the queues that are named."""
    desk.enqueued("send")
    desk.settle("finished", result=1)
    desk.enqueued("send")
    desk.fail()
    words = ("job", "delete", "--status", "finished", "--queue", "default")
    assert "this would delete 1 finished job of queue default" in desk.fusiond(*words).err
    assert desk.fusiond(*words, "--yes").out.startswith("default: 1 job deleted; 1 of them to be deleted, a minute")
    assert desk.run(desk.verbs.counts("default")).failed == 1
    assert desk.fusiond("job", "delete").status == 2


def test_all_that_fit_the_filters_are_changed(desk):
    """Their number is said first; --dry-run names them, and neither that nor a refusal changes anything."""
    names = [desk.enqueued("send", text) for text in ("one", "two")]
    failed = [desk.fail() for _ in names]
    desk.enqueued("send")
    desk.settle("failed", code="X", type="OSError", message="no route", traceback="")
    words = ("requeue", "--task", "send", "--error", "valueerror: no stock", "--since", "1h")
    dry = desk.fusiond(*words, "--dry-run", "--wide").out.splitlines()
    assert (dry[0], sorted(line.split()[0] for line in dry[2:])) == ("would requeue 2 jobs", sorted(failed))
    assert dry[2].endswith("ValueError: no stock")
    assert "did you mean 'send'?" in desk.fusiond("requeue", "--task", "sned", "--dry-run").err
    asked = desk.fusiond(*words)
    assert (asked.status, desk.run(desk.verbs.counts("default")).failed) == (2, 3)
    assert "this would requeue 2 failed jobs of task send with 'valueerror: no stock' in the error" in asked.err
    assert desk.fusiond(*words, "--yes").out == "default: 2 jobs requeued\n"
    assert desk.fusiond(*words, "--yes").out.startswith("no failed job of task send")
    assert desk.fusiond("job", "cancel", "--text", "two", "--yes").out == "default: 1 job canceled\n"
    assert desk.run(desk.verbs.counts("default")).queued == 1


def test_an_unknown_job_does_not_hold_up_the_others(desk):
    """It is named, and the status is 1."""
    waiting = desk.enqueued("send")
    done = desk.fusiond("job", "cancel", "unheard", waiting)
    assert (done.status, done.out) == (1, f"{waiting}: canceled\n")
    assert "no job 'unheard'" in done.err


def test_list_finds_by_task_tag_time_and_text(desk):
    """Over all queues, newest first; each filter leaves out what does not pass it."""
    sent = desk.enqueued("send", "+49", "--log-tag", "monthly")
    report = desk.enqueued("report", "region=EU")
    failed = desk.enqueued("send", "+1")
    desk.fusiond("job", "cancel", sent)

    def names(*words):
        return [job["name"] for job in desk.fusiond("job", "list", "--json", *words).json]

    assert names() == [sent, failed, report]
    assert names("--task", "report") == [report]
    assert names("--task", "report", "--task", "send", "--limit", "2") == [sent, failed]
    assert names("--tag", "monthly") == [sent]
    assert names("--tag", "money") == [report], "the tag that the file gives the task"
    assert names("--text", 'region":"eu') == [report]
    assert names("--text", report.partition("/")[2].lower()) == [report]
    assert names("--text", "canceled before") == [sent]
    assert names("--since", "1h") == [sent, failed, report]
    assert names("--since", "2100-01-01T00:00") == []
    assert desk.fusiond("job", "list", "--since", "soon").status == 2


def test_list_finds_among_large_jobs(desk):
    """A page of large jobs ends early; the jobs behind it are looked at, too."""
    body = b'[["%s"],{}]' % (b"x" * 200_000)
    desk.run(desk.verbs.enqueue("reports", [NewJob("old", "report", b'[["needle"],{}]')]))
    for number in range(12):
        desk.run(desk.verbs.enqueue("reports", [NewJob(f"large{number}", "report", body)]))
    found = desk.fusiond("job", "list", "--text", "e", "--tag", "money", "--limit", "50", "--json").json
    assert "reports/old" in {job["name"] for job in found}


def test_whose_job_it_is(desk):
    """Its owner and the page that says what to do; jobs are found by their owner."""
    tasks = {name: {"queue": "default", "priority": 1, "run": "x.y"} for name in ("send", "other")}
    owners = {"task send": Owner("mail"), "queue default": Owner("rest", "https://wiki.example.com/mail")}
    publish = desk.verbs.publish_catalogue
    desk.run(publish("newer", "other", tasks, priorities={}, queues=["default"], owners=owners))
    names = [desk.enqueued("send"), desk.enqueued("other")]
    shown = desk.fusiond("job", "show", names[0]).out
    assert [line.split() for line in shown.splitlines() if line.startswith(("owner", "runbook"))] == [
        ["owner", "mail"],
        ["runbook", "https://wiki.example.com/mail"],
    ]
    assert [job["name"] for job in desk.fusiond("job", "list", "--owner", "mail", "--json").json] == names[:1]
    assert desk.fusiond("job", "list", "--owner", "mail", "--task", "other", "--json").json == []
    assert [job["name"] for job in desk.fusiond("job", "list", "--owner", "rest", "--json").json] == names[1:]
    assert "no owner 'mial'" in desk.fusiond("job", "cancel", "--owner", "mial", "--yes").err
    assert desk.fusiond("job", "cancel", "--owner", "mail", "--yes").out == "default: 1 job canceled\n"
