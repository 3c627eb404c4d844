from fusiond.broker.call import as_is, plain


def push(desk, queue, *bodies):
    """As a program in any language does; then the queue is looked at as each claim does."""
    for body in bodies:
        desk.run(plain(as_is, "LPUSH", desk.verbs.keys.of(queue, "inbox"), body))
    desk.run(desk.verbs.rescue(queue))


def test_bodies_are_listed_shown_and_dropped(desk):
    """Newest first over all queues; by name; what they hold cannot steer the terminal."""
    push(desk, "default", "no \x1b[31mjson")
    push(desk, "reports", '{"args": []}')
    listed = desk.fusiond("broken", "list", "--json").json
    assert sorted((each["queue"], each["reason"]) for each in listed) == [
        ("default", "inbox: not JSON"), ("reports", "inbox: task is missing"),
    ]  # fmt: skip
    name = next(each["body"] for each in listed if each["queue"] == "default")
    shown = desk.fusiond("broken", "show", name).out
    assert "not JSON" in shown
    assert "\x1b" not in shown
    assert desk.fusiond("broken", "drop", name.rpartition("/")[2]).out == f"{name}: dropped\n"
    assert len(desk.fusiond("broken", "list").out.splitlines()) == 2
    done = desk.fusiond("broken", "show", name)
    assert (done.status, done.err) == (1, f"fusiond: no broken body '{name}'; see fusiond broken list\n")


def test_all_bodies_go_back_to_their_inboxes(desk):
    """Over several pages; what is still wrong is put aside again."""
    push(desk, "default", *(f'{{"task": "send", "priority": {999 + n}}}' for n in range(23)))
    done = desk.fusiond("broken", "requeue", "--all")
    assert (done.status, done.out) == (0, "23 bodies requeued\n")
    assert desk.run(desk.verbs.counts("default")).inbox == 23
    desk.run(desk.verbs.rescue("default"))
    assert desk.fusiond("broken", "drop", "--all", "--queue", "default").status == 2
    assert desk.fusiond("broken", "drop", "--all", "--queue", "default", "--yes").out == "23 bodies dropped\n"


def test_what_was_stored_is_not_requeued(desk):
    """The rest is; status 1 and the name of what stays."""
    job = desk.enqueued("send").rpartition("/")[2]
    desk.run(plain(as_is, "SET", desk.verbs.keys.of("default", "job", job), "spoilt"))
    claim = desk.verbs.claim("default", 1, dispatcher="d", nonce="n", lease_ms=1000, max_rescues=1)
    desk.run(claim)
    push(desk, "default", "no json")
    done = desk.fusiond("broken", "requeue", "--all")
    assert done.status == 1
    assert "stays: it is no longer there, or no body that was pushed" in done.out
    assert done.out.endswith("1 body requeued\n")
