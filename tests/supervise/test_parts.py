"""The small parts of the supervisor: watching, systemd, the client's face, directories, the server."""

import contextlib
import functools
import os
import re
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
import watchfiles

from fusiond import paths
from fusiond.config.load import load
from fusiond.config.yaml.nodes import tell_apart
from fusiond.errors import ConfigError, ControlError, FusionError
from fusiond.locate.control import ask
from fusiond.supervise import directories, start, watch
from fusiond.supervise.notify import Notify
from fusiond.supervise.reload import reading
from fusiond.supervise.reload.helper import Helper
from fusiond.supervise.reload.reading import watched_files
from fusiond.supervise.watch import Watcher, fingerprint, fingerprint_as_read, targets
from tests.support.running import PATIENCE, until


def test_each_way_to_change_a_file_changes_its_print(tmp_path):
    """A write, a rename over it, a deletion, a swapped symlink, a new match of a glob; and nothing else."""
    file, other, link = tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "link"
    file.write_text("1")
    link.symlink_to(file)
    watched = (str(file), str(link), str(tmp_path / "*.yml"))
    prints = [fingerprint(watched)]
    assert fingerprint(watched) == prints[0]
    (tmp_path / "unrelated").touch()
    assert fingerprint(watched) == prints[0]

    other.write_text("2")
    for act in (
        lambda: file.write_text("22"),
        lambda: other.replace(file),
        lambda: (link.unlink(), link.symlink_to("/dev/null")),
        (tmp_path / "c.yml").touch,
        file.unlink,
    ):
        act()
        prints.append(fingerprint(watched))
    assert len(set(prints)) == 6


def test_every_directory_on_the_way_of_a_symlink_is_watched(tmp_path):
    """A ConfigMap: the file's own directory, where ..data is swapped, and where it leads."""
    (tmp_path / "..v1").mkdir()
    (tmp_path / "..v1" / "f.yaml").touch()
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "f.yaml").symlink_to("..data/f.yaml")
    found = targets([str(tmp_path / "f.yaml")])
    assert {str(tmp_path), str(tmp_path / "..v1")} <= found.directories
    for name in ("f.yaml", "..data", "..v1/f.yaml"):
        assert found.concerns(str(tmp_path / name))


def test_other_files_in_the_directory_are_of_no_concern(tmp_path):
    """Neither a log that is written to all day, nor a swap file; all in a directory that a glob searches."""
    (tmp_path / "d").mkdir()
    found = targets([str(tmp_path / "f.yaml"), str(tmp_path / "d" / "*.yaml")])
    assert not found.concerns(str(tmp_path / "f.log"))
    assert not found.concerns(str(tmp_path / ".f.yaml.swp"))
    assert found.concerns(str(tmp_path / "d" / "g.yaml"))


def test_symlinks_in_a_circle_are_survived(tmp_path):
    """A file that cannot be read is the reader's affair."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert str(tmp_path) in targets([str(tmp_path / "a")]).directories
    assert fingerprint([str(tmp_path / "a")])


def test_a_directory_that_may_come_to_match_is_watched(tmp_path):
    """Each that a glob looks into, whether anything matches or not."""
    (tmp_path / "a").mkdir()
    pattern = str(tmp_path / "*" / "f.yaml")
    assert {str(tmp_path), str(tmp_path / "a")} <= targets([pattern]).directories


def test_a_mode_and_an_owner_are_part_of_a_print(tmp_path):
    """To make a file safe, or readable, is a change of it."""
    (tmp_path / "f").touch(mode=0o666)
    before = fingerprint([str(tmp_path / "f")])
    (tmp_path / "f").chmod(0o600)
    assert fingerprint([str(tmp_path / "f")]) != before


def test_what_has_changed_since_it_was_read_is_no_part_of_what_was_read(tmp_path):
    """A file that was written, one that is gone and one that has come since."""
    main = tmp_path / "[main].yaml"
    main.write_text("version: 1\ninclude: [d/*.yaml]\n")
    (tmp_path / "d").mkdir()
    same, written, gone, new = (tmp_path / "d" / f"{name}.yaml" for name in ("same", "written", "gone", "new"))
    for file in (same, written, gone):
        file.write_text("{}\n")
    loaded = load(main, environ={})
    stats = {str(path): tell_apart(found) for path, found in loaded.tree.stats.items()}
    files = watched_files(main, loaded.tree.globs)
    assert fingerprint_as_read(files, stats) == fingerprint(files)
    new.write_text("{}\n")
    written.write_text("{ }\n")
    gone.unlink()
    assert [mark[0] for mark in fingerprint_as_read(files, stats)] == [str(main), str(same)]


@pytest.fixture(params=["", "true"], ids=["inotify", "polling"])
def polling(request, monkeypatch):
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", request.param)


@pytest.fixture
def watcher(monkeypatch):
    """It looks again by itself after an hour: until then all that it says has a reason."""
    monkeypatch.setattr(watch, "RECHECK", 3600.0)
    watcher = Watcher(targets, lambda: None)
    watcher.stands = threading.Event()
    monkeypatch.setattr(watchfiles, "watch", functools.partial(watched, watchfiles.watch, watcher.stands))
    yield watcher
    watcher.stop()
    until(lambda: not watcher._thread.is_alive(), "the thread ends, on a busy machine after `stop` has given up")


def watched(watch_files, stands, *directories, **options):
    """As watchfiles does it; `stands` is set once a new watch has been told of, and no change is being told of."""
    began, is_told = time.monotonic(), False
    for changes in watch_files(*directories, **options):
        if changes:
            stands.clear()  # what is told of ends the watch
        is_told = is_told or time.monotonic() - began >= watch.SETTLE
        yield changes
        if is_told:
            stands.set()


def at_rest(watcher):
    """Wait until the watch stands, and forget that this was told of."""
    until(watcher.fired)
    assert watcher.stands.wait(PATIENCE)
    watcher.fired()


def change(watcher, file, act):
    """What is done to the file is told of."""
    before = fingerprint([str(file)])
    act()
    assert fingerprint([str(file)]) != before
    until(watcher.fired)
    at_rest(watcher)


@pytest.mark.proof
@pytest.mark.usefixtures("polling")
def test_the_watcher_wakes_for_a_change_in_a_directory_that_came_later(tmp_path, watcher):
    """A directory that is not there yet is waited for, and one that is made again, with those above it."""
    file = tmp_path / "etc" / "conf" / "fusion.yaml"
    watcher.watch((str(file),))
    at_rest(watcher)
    change(watcher, file, lambda: (file.parent.mkdir(parents=True), file.write_text("1")))
    change(watcher, file, lambda: file.write_text("22"))
    change(watcher, file, lambda: shutil.rmtree(tmp_path / "etc"))
    change(watcher, file, lambda: (file.parent.mkdir(parents=True), file.write_text("1")))


def test_a_burst_of_events_is_one_and_is_waited_for_a_moment(tmp_path, watcher):
    """Until it is quiet, or 0.1 s after the first: who writes without end does not put the reload off for ever."""
    file, ended = tmp_path / "file", threading.Event()
    watcher.watch((str(file),))
    at_rest(watcher)

    def write():
        while not ended.wait(0.001):
            file.write_text("x")

    writer = threading.Thread(target=write)
    writer.start()
    until(watcher.fired)
    until(watcher.fired)
    ended.set()
    writer.join()


@pytest.mark.proof
def test_the_files_are_compared_again_even_if_no_change_is_reported(tmp_path, watcher, monkeypatch):
    """A network file system reports no change that another host makes."""
    monkeypatch.setattr(watch, "RECHECK", 1.0)
    watcher.watch((str(tmp_path / "file"),))
    for _ in range(4):
        until(watcher.fired)


def test_other_files_wake_nobody(tmp_path, watcher):
    """Hundreds of files that come, change and go beside the file are not told of; the file still is."""
    file = tmp_path / "file"
    watcher.watch((str(file),))
    at_rest(watcher)
    for number in range(300):
        other = tmp_path / f"{number}.log"
        other.write_text("x")
        other.unlink()
        time.sleep(0.001)
        assert not watcher.fired()
    file.touch()
    until(watcher.fired)


def test_a_directory_that_is_no_utf_8_is_looked_at(tmp_path, watcher):
    """The library cannot watch it, and its error is neither an OSError nor a RuntimeError: the thread lives on."""
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    directory.mkdir()
    watcher.watch((str(directory / "file"),))
    for _ in range(3):
        until(watcher.fired)
    assert watcher._thread.is_alive()


def test_without_inotify_the_files_are_compared_each_second(tmp_path, watcher, monkeypatch, caplog):
    """The user's limit is reached: one sentence with the remedy, and the loop looks at the files by itself."""

    def limited(*_paths, **_options):
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr(watchfiles, "watch", limited)
    watcher.watch((str(tmp_path / "file"),))
    for _ in range(3):
        until(watcher.fired)
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "limit reached" in said
    assert "fs.inotify.max_user_instances or max_user_watches" in said


def test_without_systemd_nothing_is_said_and_nothing_is_due():
    """By hand, or in a container."""
    notify = Notify({})
    notify.ready("x")
    assert notify.due(time.monotonic()) == float("inf")


def test_a_watchdog_of_another_process_is_not_ours():
    """WATCHDOG_PID says whose it is."""
    assert Notify({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).interval == 0
    assert Notify({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())}).interval == 0.5


def test_an_abstract_socket_and_a_status_of_two_lines(tmp_path):
    """The address begins with @; a status cannot forge another assignment."""
    name = f"fusiond-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{name}")
        systemd.settimeout(5)
        Notify({"NOTIFY_SOCKET": f"@{name}"}).ready("one\nMAINPID=1")
        assert systemd.recv(4096).decode().splitlines() == ["READY=1", "STATUS=one MAINPID=1"]


def test_what_systemd_is_too_busy_to_take_is_told_later(tmp_path):
    """A full queue loses nothing and blocks nobody: the order stays, READY=1 comes."""
    path, count = tmp_path / "n", int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text()) + 100
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(5)
        notify = Notify({"NOTIFY_SOCKET": str(path)})
        for number in range(count):
            notify.status(str(number))
        notify.ready("done")
        assert notify.due(time.monotonic()) < 1
        said = []
        while len(said) < count + 1:
            said.append(systemd.recv(4096).decode())
            notify.tick(time.monotonic())
        assert said == [*(f"STATUS={number}" for number in range(count)), "READY=1\nSTATUS=done"]
        assert notify.due(time.monotonic()) == float("inf")


def test_nobody_listens(tmp_path):
    """One sentence, with the remedy, for a socket that is not there and for one that was left behind."""
    control = tmp_path / "control.sock"
    with pytest.raises(ControlError, match="start one with fusiond run"):
        ask(control, "status")
    socket.socket(socket.AF_UNIX).bind(str(control))
    with pytest.raises(ControlError, match="no daemon listens"):
        ask(control, "status")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.0 200 OK\r\n\r\n<nonsense", b"garbage\r\n\r\n"])
def test_a_daemon_that_speaks_nonsense(tmp_path, answer):
    """Whatever comes back, the caller gets a ControlError."""
    control = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control))
        listener.listen()

        def serve():
            with contextlib.suppress(OSError):  # the test is over, or who asked has gone
                while True:  # a request that got no answer is sent once more
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(ControlError):
            ask(control, "status", timeout=10)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_a_daemon_that_does_not_answer(tmp_path):
    """The time is the caller's to set."""
    control = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control))
        listener.listen()
        with pytest.raises(ControlError, match=r"did not answer status within 0.2 s$"):
            ask(control, "status", timeout=0.2)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's directory")
def test_another_users_directory_or_symlink_is_refused(tmp_path):
    """Below /tmp somebody else may have been there first."""
    theirs, link = tmp_path / "theirs", tmp_path / "link"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    with pytest.raises(FusionError, match="belongs to user 65534"):
        directories.make_private(theirs)
    (tmp_path / "ours").mkdir()
    link.symlink_to(tmp_path / "ours")
    os.lchown(link, 65534, 65534)
    with pytest.raises(FusionError, match="belongs to user 65534"):
        directories.make_private(link)


def test_an_unknown_group_is_named():
    """With the key that it stands under."""
    with pytest.raises(FusionError, match=r"control\.group: there is no system group 'nobody-at-all'"):
        start.group_id("nobody-at-all")
    assert start.group_id(None) == -1


def test_directories_by_systemd_by_root_by_user_and_by_the_file(monkeypatch, tmp_path):
    """The file's key, then systemd's variable, then the user's own places."""
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")
    file = Path("/srv/shop/fusion.yaml")
    assert str(paths.state_directory(file)) == "/var/lib/a"
    assert str(paths.state_directory(file, "/key", development=True)) == "/key/dev"
    monkeypatch.delenv("STATE_DIRECTORY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    name = paths.own_name(file)
    assert re.fullmatch("fusion-[0-9a-f]{8}", name)
    assert paths.state_directory(file) == tmp_path / "fusiond" / name
    assert paths.runtime_directory(file).name == name
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert paths.runtime_directory(file) == Path(f"/tmp/fusiond-{os.geteuid()}/{name}")
    assert paths.runtime_directory(file, development=True) == Path(f"/tmp/fusiond-{os.geteuid()}/{name}/dev")


def test_only_etc_uses_the_directories_of_the_system(monkeypatch, tmp_path):
    """Root's other files have their own, and so has `fusiond dev` of /etc/fusion.yaml."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert str(paths.state_directory(paths.ETC)) == "/var/lib/fusiond"
    assert str(paths.runtime_directory(paths.ETC)) == "/run/fusiond"
    assert paths.state_directory(paths.ETC, development=True).is_relative_to(tmp_path)
    assert paths.state_directory(Path("/etc/other.yaml")).is_relative_to(tmp_path)


def test_an_instance_has_directories_of_the_system_too(monkeypatch, tmp_path):
    """By its file's path, however the file was named; no other file of /etc has them, and no `fusiond dev`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = paths.instance_file("mail-eu")
    assert str(file) == "/etc/fusion-mail-eu.yaml"
    assert str(paths.state_directory(file)) == "/var/lib/fusiond-mail-eu"
    assert str(paths.runtime_directory(file)) == "/run/fusiond-mail-eu"
    assert paths.is_given_state(file)
    assert paths.state_directory(file, development=True).is_relative_to(tmp_path)
    for other in ("/etc/fusion-.yaml", "/etc/fusion-a.yml", "/srv/fusion-a.yaml", "/etc/fusion--a.yaml"):
        assert paths.state_directory(Path(other)).is_relative_to(tmp_path), other


@pytest.mark.parametrize("name", ["", "a/b", "../a", "-a", ".a", "a b", "é", "x" * 49])
def test_a_name_that_no_instance_can_have_is_refused(name):
    """It becomes a part of paths, and of a unit's name."""
    with pytest.raises(ConfigError, match="instance"):
        paths.instance_file(name)
    longest = paths.instance_file("x" * 48)
    assert len(os.fsencode(paths.redis_socket(paths.runtime_directory(longest)))) < 100


@pytest.mark.parametrize("stem", ["fusion", "x" * 200, "größe und mehr", ".hidden"])
def test_a_sockets_path_stays_short(monkeypatch, tmp_path, stem):
    """Whatever the file and $XDG_RUNTIME_DIR are called, the kernel takes it; two files of one stem stay apart."""
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    one, other = (paths.runtime_directory(Path(f"/{name}/{stem}.yaml"), development=True) for name in "ab")
    assert one != other
    assert len(os.fsencode(paths.redis_socket(one))) < 100


def test_the_directory_of_another_user_is_not_used(monkeypatch, tmp_path):
    """Sudo may hand over $XDG_RUNTIME_DIR of the user before, which ends with that user's login."""
    os.chown(tmp_path, 65534, -1)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert paths.user_runtime() == Path(f"/tmp/fusiond-{os.geteuid()}")


def test_without_a_home_the_remedy_is_named(monkeypatch):
    """A user without HOME and without an entry in the password file."""
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(ConfigError, match="set state_directory"):
        paths.state_directory(Path("/x.yaml"))


def test_a_path_keeps_the_symlinks_that_it_was_named_by(monkeypatch, tmp_path):
    """Also those by which a shell has entered its working directory; `..` goes where the kernel goes."""
    release = tmp_path / "releases" / "42"
    release.mkdir(parents=True)
    (tmp_path / "current").symlink_to(release)
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setenv("PWD", str(tmp_path / "current"))
    assert paths.as_named("fusion.yaml") == tmp_path / "current" / "fusion.yaml"
    assert paths.as_named("./../fusion.yaml") == tmp_path / "releases" / "fusion.yaml"
    monkeypatch.setenv("PWD", str(tmp_path))
    assert paths.as_named("fusion.yaml") == release / "fusion.yaml"


def test_the_file_is_found_in_order(monkeypatch, tmp_path):
    """-c, $FUSION_CONFIG, ./fusion.yaml, /etc/fusion.yaml; none is one sentence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FUSION_CONFIG", raising=False)
    monkeypatch.setattr(paths, "ETC", tmp_path / "etc.yaml")
    with pytest.raises(ConfigError, match="fusiond init"):
        paths.find_config()
    (tmp_path / "etc.yaml").touch()
    assert paths.find_config() == tmp_path / "etc.yaml"
    (tmp_path / "fusion.yaml").touch()
    assert paths.find_config() == tmp_path / "fusion.yaml"
    monkeypatch.setenv("FUSION_CONFIG", "/x.yaml")
    assert str(paths.find_config()) == "/x.yaml"
    assert str(paths.find_config("/y.yaml")) == "/y.yaml"


@pytest.mark.parametrize(("verb", "asked"), [("status", 2), ("reload", 1)])
def test_a_question_that_changes_nothing_is_asked_again(tmp_path, verb, asked):
    """A daemon with too many connections hangs up on one of them; what may have been begun is not repeated."""
    path, met = tmp_path / "s", []

    def hang_up():
        for _ in range(asked):
            peer, _ = listening.accept()
            met.append(peer.recv(65536))
            peer.close()

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(10)
        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(ControlError, match="hung up"):
            ask(path, verb, timeout=5)
        thread.join(10)
    assert len(met) == asked


def test_a_machine_that_is_too_busy_to_read_the_file_is_told_in_a_sentence(tmp_path, monkeypatch):
    """Not by the command line of the helper."""
    monkeypatch.setattr(reading, "DEADLINE", 0.0)
    file = tmp_path / "fusion.yaml"
    os.mkfifo(file)  # the helper waits for somebody who writes
    with pytest.raises(FusionError) as told:
        start.run(Helper.at_start(file, development=False))
    assert str(told.value) == f"{file} was not read within 0 s: the machine is too busy; try again"
