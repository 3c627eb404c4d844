from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob, TaskLimit
from tests.support.fusiond_command import fusiond_here


def test_list_counts_jobs_by_status(desk):
    """A line for each queue, empty ones too."""
    desk.enqueued("send")
    desk.enqueued("send", "--in", "1h")
    default, reports = desk.fusiond("queue", "list", "--json").json
    assert (default["name"], default["queued"], default["scheduled"]) == ("default", 1, 1)
    assert (reports["name"], reports["queued"]) == ("reports", 0)
    assert desk.fusiond("queue", "list").out.splitlines()[1].split()[:2] == ["default", "1"]


def test_list_shows_limits(desk):
    """As the file has them, whatever their unit."""
    desk.run(desk.verbs.configure("default", tasks={}, max_running=20, rate=(2000.0, 5)))
    default, _ = desk.fusiond("queue", "list", "--json").json
    assert (default["max_running"], default["rate"], default["burst"]) == (20, 0.5, 5)
    assert "at most 20 run, at most 30/m (5 at once)" in desk.fusiond("queue", "list").out


def test_held_jobs_are_shown_with_what_holds_them(desk):
    """In the list, with the limit, and apart from those held for their tasks; of a job, the limit that holds it."""
    limit = TaskLimit(("kwargs.to",), 1, (100.0, 5))
    desk.run(desk.verbs.configure("default", tasks={"send": (1, None)}, limits={"send": limit}))
    jobs = [NewJob(f"job{n}", "send", b'[[], {"to": "acme"}]') for n in range(3)]
    desk.run(desk.verbs.enqueue("default", [*jobs, NewJob("odd", "gone", b"[[],{}]")]))
    desk.run(plain(as_is, "HSET", desk.verbs.keys.of("default", "conf"), "held_tasks", "1 gone "))
    desk.claim()
    desk.run(desk.verbs.claim("default", 5, dispatcher="d", nonce="n", lease_ms=1000, max_rescues=1, has="1"))
    default, _ = desk.fusiond("queue", "list", "--json").json
    assert default["held"] == 3
    assert default["limits"] == {"send": {"by": ["kwargs.to"], "max_running": 1, "every": 100.0, "burst": 5}}
    listed = desk.fusiond("queue", "list", "--wide").out
    assert "send: at most 1 run and 10/s (5 at once) by kwargs.to, 1 held of task gone, 2 held by limits" in listed
    shown = desk.fusiond("job", "show", "default/job1").out
    assert "held" in shown
    assert """by the limit of task 'send', for kwargs.to="acme\"""" in shown
    found = desk.fusiond("job", "list", "--status", "held", "--json").json
    assert [job["id"] for job in found] == ["odd", "job2", "job1"]


def test_a_suspended_queue_takes_jobs_and_starts_none(desk):
    """Suspend holds the queue, queue list says so, resume lets it go on."""
    assert desk.fusiond("suspend", "default").out == "default: suspended\n"
    desk.enqueued("send")
    claim = desk.verbs.claim("default", 1, dispatcher="d", nonce="n", lease_ms=1000, max_rescues=1)
    assert desk.run(claim).jobs == []
    assert "suspended by the operator" in desk.fusiond("queue", "list").out
    assert desk.fusiond("resume", "default").out == "default: resumed\n"
    assert desk.claim()


def test_what_the_file_suspends_stays_suspended(desk):
    """Resume undoes the operator's word, not the file's, and says so."""
    desk.run(desk.verbs.suspend("default", by="file", on=True))
    done = desk.fusiond("resume", "default")
    assert done.out == "default: stays suspended, by the file\n"


def test_resume_of_all_says_what_it_leaves_suspended(desk):
    """A queue that was suspended by name, with the command that resumes it."""
    desk.fusiond("suspend", "reports")
    desk.fusiond("suspend", "--all")
    resumed = desk.fusiond("resume", "--all").out.splitlines()
    assert resumed[0] == "default: resumed"
    assert resumed[1] == "reports: stays suspended, by name or by the file (fusiond resume QUEUE)"


def test_an_unknown_queue_is_named_with_the_nearest(desk):
    """One sentence, status 1, and nothing is suspended."""
    done = desk.fusiond("suspend", "default", "reprots")
    assert (done.status, done.err) == (1, "fusiond: no queue 'reprots'; did you mean 'reports'?\n")
    assert not desk.run(desk.verbs.counts("default")).suspended_by_operator


def test_a_broker_is_found_by_its_options_first(desk):
    """--url and --namespace win over $FUSION_URL; another namespace has no queue of ours."""
    nowhere = f"unix://{desk.cwd}/nothing.sock"
    words = ("queue", "list", "--json", "--url", desk.settings.url)
    assert len(fusiond_here(*words, cwd=desk.cwd, FUSION_URL=nowhere).json) == 2
    assert fusiond_here(*words, "--namespace", "other", cwd=desk.cwd).json == []


def test_a_broker_is_found_by_the_file(desk):
    """-c names a file that says where it is; so does the file that is found, where no URL is set."""
    (desk.cwd / "fusion.yaml").write_text(f"version: 1\nbroker: {{url: {desk.settings.url}}}\n")
    (desk.cwd / "other").mkdir()
    (desk.cwd / "other" / "fusion.yaml").write_text("version: 1\nbroker: {url: unix:///nothing.sock}\n")
    words = ("queue", "list", "--json", "-c", "../fusion.yaml")
    assert len(fusiond_here(*words, cwd=desk.cwd / "other", FUSION_URL="unix:///nothing.sock").json) == 2
    assert len(fusiond_here("queue", "list", "--json", cwd=desk.cwd).json) == 2
    assert fusiond_here("queue", "list", cwd=desk.cwd / "other").status == 3


def test_purge_cancels_what_waits(desk):
    """Of the queues that are named, only if it was agreed to; running jobs go on, and can be counted."""
    desk.enqueued("send")
    desk.claim()
    for words in (("send",), ("send", "--in", "1h"), ("report",)):
        desk.enqueued(*words)
    done = desk.fusiond("queue", "purge", "default")
    assert (done.status, done.err) == (
        2, "fusiond: this would cancel 2 waiting jobs of default; give --yes to do it\n",
    )  # fmt: skip
    assert desk.fusiond("queue", "purge", "default", "--yes").out == "default: 2 jobs canceled; 1 running job goes on\n"
    assert desk.fusiond("queue", "purge", "default", "reports", "--yes", "--json").json == [
        {"queue": "default", "canceled": 0, "running": 1}, {"queue": "reports", "canceled": 1, "running": 0},
    ]  # fmt: skip
    assert desk.fusiond("queue", "purge", "default").out == "default: 0 jobs canceled; 1 running job goes on\n"
