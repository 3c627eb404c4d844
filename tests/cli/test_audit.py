"""`fusiond audit`: who did what; and what `job show` says of a job that has not begun."""

import time

import pytest

from fusiond.broker.call import as_is, plain
from fusiond.broker.event_records import DAEMONS
from fusiond.broker.records import NewJob
from fusiond.owners import Owner


@pytest.fixture
def heard(desk):
    """Commands whose acts are kept."""
    for stream in ("default", "reports", DAEMONS):
        desk.run(desk.verbs.keep_events(stream, "1000 0"))
    return desk


def test_acts_are_told_once_whoever_did_them(heard):
    """A command that changes many jobs is one line; the file did what it says."""
    names = [heard.enqueued("send") for _ in range(30)]
    heard.fusiond("job", "cancel", "--task", "send", "--yes")
    heard.fusiond("suspend", "reports")
    heard.run(heard.verbs.suspend("reports", by="file", on=True))
    heard.run(heard.verbs.suspend("reports", by="file", on=False))
    resumed, by_file, *acts = heard.fusiond("audit", "--json").json
    assert (resumed["what"], by_file["what"], by_file["who"]) == ("resumed", "suspended", "the file")
    assert [(act["what"], act["queue"], act["number"]) for act in acts] == [
        ("suspended", "reports", 1),
        ("canceled", "default", len(names)),
    ]
    assert all("@" in act["who"] for act in acts)
    assert heard.fusiond("audit", "--by", acts[0]["who"][:3], "--queue", "reports", "--json").json == acts[:1]
    assert heard.fusiond("audit", "--by", "nobody-else", "--json").json == []
    heard.fusiond("task", "suspend", "send")
    heard.fusiond("task", "suspend", "report")
    told = heard.fusiond("audit", "--json").json[:2]
    assert {act["about"] for act in told} == {"send", "report"}, "acts on two things are two"
    assert "30 jobs" in heard.fusiond("audit").out


def add(heard, at_ms, number):
    """Entries of so many acts of ann's, all in that millisecond."""
    key = heard.verbs.keys.of("default", "audit")
    for n in range(number):
        heard.run(plain(as_is, "XADD", key, f"{at_ms}-{n}", "at", at_ms, "by", "@ann", "requeued", f"job{n} send"))
    return lambda: heard.run(plain(as_is, "XLEN", key))


def test_a_command_on_many_jobs_is_kept_as_one_act(heard):
    """Though it takes several scripts; it names the first jobs. The same of another person is another act."""
    names = [f"job{n}" for n in range(600)]
    heard.run(heard.verbs.enqueue("default", [NewJob(name, "send", b"[[],{}]") for name in names]))
    heard.fusiond("job", "cancel", "--task", "send", "--yes")
    for who in ("ann", "bob"):
        heard.run(heard.verbs.requeue("default", [names.pop()], who=who))
        heard.run(heard.verbs.requeue("default", [names.pop()], who=who))
    kept = heard.run(heard.verbs.audit_before("default", b"", 10))
    assert kept.entries == 3
    assert [event.job for event in kept.events if event.by == "@bob"] == ["job597", "job596"]
    acts = heard.fusiond("audit", "--json").json
    assert [(act["what"], act["number"]) for act in acts] == [("requeued", 2), ("requeued", 2), ("canceled", 600)]


def test_what_was_done_is_kept_for_90_days(heard):
    """Older acts go when somebody acts again, about a hundred at once."""
    day = 86_400_000
    now = int(time.time() * 1000)
    add(heard, now - 91 * day, 300)
    length = add(heard, now - 89 * day, 300)
    heard.fusiond("suspend", "default")
    assert 301 <= length() <= 401


def test_no_act_is_lost_or_told_twice_between_two_reads(heard):
    """However many there are, and if many are of one millisecond."""
    add(heard, int(time.time() * 1000) - 60_000, 1200)
    assert sum(act["number"] for act in heard.fusiond("audit", "--json").json) == 1200


def test_an_audit_shows_no_secret(heard):
    """Such as is in the name of a lock. It says who answers for the queue."""
    owners = {"queue default": Owner("ada")}
    tasks = {"send": {"queue": "default", "priority": 1, "secret": ["kwargs.code"]}}
    heard.run(heard.verbs.publish_catalogue("d2", "h2", tasks, priorities={}, queues=["default"], owners=owners))
    heard.run(heard.verbs.enqueue("default", [NewJob("u", "send", b"[[],{}]", unique='ended,error,0,"s3cret-code"')]))
    _, locks = heard.run(heard.verbs.locks("default"))
    heard.run(heard.verbs.unlock("default", "u", [locks[0].name], who="ann"))
    [act] = heard.fusiond("audit", "--json").json
    assert (act["what"], act["about"], act["owner"]) == ("unlocked", "send:•••", "ada")


def test_without_events_there_is_no_audit(desk):
    """And that is said."""
    desk.fusiond("suspend", "reports")
    assert "events: {}" in desk.fusiond("audit").err


def test_show_says_why_a_job_has_not_begun(heard):
    """Who suspended its queue; or that nothing serves it; or its place in the row, and about when it begins."""
    heard.enqueued("send")
    name = heard.enqueued("send")
    assert "nothing serves queue 'default' now" in heard.fusiond("job", "show", name).out
    heard.fusiond("suspend", "default")
    said = heard.fusiond("job", "show", name, "--json").json[0]["why_waiting"]
    assert said.startswith("queue 'default' is suspended by ")
    assert "@" in said
    assert said.endswith("; fusiond resume default")
    heard.fusiond("resume", "default")
    heard.serve("default")
    worker = {"group": "main", "queues": "default", "state": "idle", "phase": "serving", "answers": 1 << 30}
    heard.run(heard.verbs.announce("host.1", worker))
    assert heard.fusiond("job", "show", name, "--json").json[0]["why_waiting"] == "it is number 2 of 2 ready jobs"
    minute = int(time.time()) // 60
    key = heard.verbs.keys.of("default", "metrics", "minutes")
    heard.run(plain(as_is, "HSET", key, f"i {minute - 2}", 2, f"f {minute - 2}", 6))
    assert "; about in " in heard.fusiond("job", "show", name).out


def test_the_list_of_queues_names_who_suspended_one(heard):
    """And when; without events it is an operator."""
    heard.fusiond("suspend", "reports")
    [act] = heard.fusiond("audit", "--json").json
    [line] = [line for line in heard.fusiond("queue", "list", "--wide").out.splitlines() if "reports" in line]
    assert f"suspended by {act['who']}, " in line
