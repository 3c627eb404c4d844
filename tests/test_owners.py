"""Who answers for what."""

from fusiond.config.model import Config, CronEntry, Flow, Queue, Task
from fusiond.owners import Owner, owner_of, with_owner

OWNERS = Config(
    queues={"mail": Queue("mail", owner="post", runbook_url="https://w/mail"), "bare": Queue("bare")},
    tasks={"send": Task("send", "a.b", owner="ada"), "plain": Task("plain", "a.c")},
    cron={"a:b": CronEntry("a:b", "send", every=60.0, owner="night")},
    flows={"etl": Flow("etl", {}, runbook_url="https://w/etl")},
).owners


def test_the_one_that_is_nearest_to_the_job_answers():
    """Its entry, its task, its queue; each of owner and runbook by itself, so a queue's runbook may be a task's."""
    assert OWNERS.keys() == {"queue mail", "task send", "cron a:b", "flow etl"}
    assert owner_of(OWNERS, "mail", "plain") == Owner("post", "https://w/mail")
    assert owner_of(OWNERS, "mail", "send", "0P8c") == Owner("ada", "https://w/mail")
    assert owner_of(OWNERS, "bare", "send", "cron:a:b:1795973310000") == Owner("night", "")
    assert owner_of(OWNERS, "bare", "send", "cron:backfill:a:b:1795973310000") == Owner("night", "")
    assert owner_of(OWNERS, "bare", "plain", "cron:none:1") == Owner()


def test_an_event_says_who_answers():
    """Also one that is about an entry and no job; where nobody does, it says nothing."""
    assert with_owner({"event": "cron.overdue", "about": "a:b"}, OWNERS)["owner"] == "night"
    said = {"event": "failed", "queue": "mail", "task": "plain", "job_id": "x"}
    assert with_owner(said, OWNERS) == {**said, "owner": "post", "runbook_url": "https://w/mail"}
    assert with_owner({"event": "reload.applied"}, OWNERS) == {"event": "reload.applied"}
