"""`reload_on`, with stand-ins for the programs: what is a change, which groups are replaced, what is tried again."""

import os

from tests.supervise.file import file
from tests.support.running import until


def switch(daemon, link, number):
    """Let a link lead to another release, which is made."""
    (daemon.app / f"{link}-{number}").mkdir(exist_ok=True)
    (daemon.app / "fresh").symlink_to(f"{link}-{number}")
    (daemon.app / "fresh").replace(daemon.app / link)


def text(daemon, more="", **paths):
    """A file with these groups, and what each one's `reload_on` names."""
    groups = (f"{name}: {{reload_on: [{daemon.app}/{path}]{more}}}" for name, path in paths.items())
    return file(", ".join(groups))


def reloads(daemon):
    return daemon.status()["reloads"]


def generation_of(daemon, group):
    """The generation in which the serving program of the group was started."""
    (name,) = (name for name, each in daemon.programs().items() if each["part"] == f"worker:{group}" and each["wanted"])
    return int(name.rpartition("@")[2])


def test_it_is_taken_in_place_and_counts_from_then_on(daemon):
    """The programs keep their pids; a switch after that replaces the group."""
    switch(daemon, "current", 1)
    daemon.start(file("main: {}"))
    before = daemon.pid("worker:main@1")
    assert daemon.reload(text(daemon, main="current"))["generation"] == 2
    assert daemon.pid("worker:main@1") == before
    until(lambda: daemon.programs()["worker:main@1"]["release"], daemon.text)
    switch(daemon, "current", 2)
    until(lambda: daemon.names() == {"scheduler", "worker:main@3"}, daemon.text)
    until(lambda: daemon.status()["reload"]["generation"] == 3, daemon.text)
    (group,) = daemon.status()["reload"]["plan"]["groups"]
    assert (group["action"], group["because"]) == ("replaced", ["release"])


def test_a_file_counts_when_it_is_replaced_or_touched(daemon):
    """Also one that was not there. Its removal, and other files beside it, are nothing."""
    daemon.start(text(daemon, main="restart.txt"))
    path = daemon.app / "restart.txt"
    path.touch()
    until(lambda: generation_of(daemon, "main") == 2, daemon.text)
    os.utime(path, (1, 1))
    until(lambda: generation_of(daemon, "main") == 3, daemon.text)
    path.unlink()
    (daemon.app / "other.txt").touch()
    (daemon.app / "fresh").write_text("again")
    (daemon.app / "fresh").replace(path)
    until(lambda: generation_of(daemon, "main") == 4, daemon.text)
    until(lambda: reloads(daemon) == {"applied": 3}, daemon.text)


def test_a_link_that_leads_to_nothing_is_waited_for(daemon):
    """A link that is gone for a moment or leads nowhere is not a release; what it leads to later is one."""
    switch(daemon, "current", 1)
    daemon.start(text(daemon, main="current"))
    link = daemon.app / "current"
    link.unlink()
    shown = str(link)
    until(lambda: daemon.programs()["worker:main@1"]["release"][shown]["now"] is None, daemon.text)
    switch(daemon, "current", 1)
    link.unlink()
    link.symlink_to("current-2")
    (daemon.app / "current-2").mkdir()
    until(lambda: generation_of(daemon, "main") == 2, daemon.text)
    until(lambda: reloads(daemon) == {"applied": 1}, daemon.text)


def test_a_release_that_is_refused_holds_up_no_other(daemon):
    """A group that follows another link is replaced; the refused one is tried again when somebody asks."""
    for link in ("one", "two"):
        switch(daemon, link, 1)
    daemon.start(text(daemon, main="one", side="two"))
    broken = daemon.state / "broken-side"
    broken.touch()
    switch(daemon, "two", 2)
    switch(daemon, "one", 2)
    until(lambda: generation_of(daemon, "main") == 2, daemon.text)
    stays = "group 'side' stays with the code that it has"
    until(lambda: stays in (daemon.status()["reload"] or {}).get("reason", ""), daemon.text)
    assert generation_of(daemon, "side") == 1
    broken.unlink()
    daemon.reload()
    until(lambda: generation_of(daemon, "side") == 3, daemon.text)


def test_a_refused_release_is_tried_again_after_a_change_of_the_file(daemon):
    """The file may have been why; the change itself is applied, whether the release loads or not."""
    switch(daemon, "current", 1)
    daemon.start(text(daemon, main="current"))
    broken = daemon.state / "broken-main"
    broken.touch()
    switch(daemon, "current", 2)
    until(lambda: reloads(daemon) == {"refused": 1}, daemon.text)
    daemon.write(text(daemon, ", processes: 3", main="current"))
    until(lambda: reloads(daemon) == {"refused": 2, "applied": 1}, daemon.text)
    broken.unlink()
    daemon.write(text(daemon, ", processes: 4", main="current"))
    until(lambda: generation_of(daemon, "main") == 4, daemon.text)
