"""`fusiond top`: its keys by Textual's own pilot, and once on a real terminal."""

import asyncio
import fcntl
import io
import os
import pty
import select
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyte
import pytest
from textual.widgets import DataTable, Label, Static

from fusiond.broker.call import as_is, plain
from fusiond.broker.records import NewJob
from fusiond.broker.redis.connection import connect
from fusiond.cli import main
from fusiond.cli.find.broker import Session
from fusiond.cli.top.top_screen import TopApp
from fusiond.cli.top.top_views import Views
from fusiond.job import JobStatus
from tests.support.running import PATIENCE


async def shown(pilot, condition):
    """Until the screen is like that."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, [each.render() for each in pilot.app.query(Label)]
        await pilot.pause(0.02)


def cells(app):
    """The rows of the table."""
    table = app.screen_stack[0].query_one(DataTable)
    return [[cell.plain for cell in table.get_row_at(row)] for row in range(table.row_count)]


def said(app, id_):
    return str(app.screen_stack[0].query_one(id_, Label).render())


def test_keys_show_views_and_act_on_rows(desk):
    """Suspend a queue; look at a failed job, requeue it, and cancel it once that is confirmed."""
    name = desk.enqueued("send")
    desk.fail()
    queue, id_ = name.split("/")

    def status():
        return desk.run(desk.verbs.status(queue, id_))

    async def use(app):
        async with app.run_test(size=(100, 30)) as pilot:
            await shown(pilot, lambda: [row[0] for row in cells(app)] == ["default", "reports"])
            await pilot.press("s")
            await shown(pilot, lambda: "default: suspended" in said(app, "#news"))
            await shown(pilot, lambda: cells(app)[0][-1] == "suspended by the operator")
            await pilot.press("c")
            await shown(pilot, lambda: "choose a job first" in said(app, "#news"))
            await pilot.press("5")
            await shown(pilot, lambda: cells(app) and cells(app)[0][0] == name)
            await pilot.press("enter")
            await shown(pilot, lambda: len(app.screen_stack) == 2)
            await pilot.press("escape")
            await shown(pilot, lambda: len(app.screen_stack) == 1)
            await pilot.press("r")
            await shown(pilot, lambda: f"{name}: requeued" in said(app, "#news"))
            await shown(pilot, lambda: cells(app) == [])
            await pilot.press("3")
            await shown(pilot, lambda: cells(app) and cells(app)[0][2] == "queued")
            for answer in ("n", "y"):
                await pilot.press("c")
                await shown(pilot, lambda: len(app.screen_stack) == 2)
                assert status() is JobStatus.QUEUED
                await pilot.press(answer)
                await shown(pilot, lambda: len(app.screen_stack) == 1)
            await shown(pilot, lambda: cells(app)[0][2] == "canceled")
            await pilot.press("2")
            await shown(pilot, lambda: "workers: 0 workers" in said(app, "#head"))
            await pilot.press("q")

    with connect(desk.settings, Path("/")) as connection:
        asyncio.run(use(opened(desk, connection)))
    assert status() is JobStatus.CANCELED


def opened(desk, connection, restart=None):
    """The screen over the desk's Redis."""
    return TopApp(Views(Session(desk.verbs, connection), restart), 0.05)


def test_a_long_name_pushes_no_number_off_a_screen_of_80_columns(desk):
    """The name is cut, and no number; the page of a job has colours, and names the key that closes it."""
    queue = "q" * 100
    desk.run(plain(as_is, "SADD", desk.verbs.keys.queues, queue))
    desk.run(desk.verbs.enqueue(queue, [NewJob("a", "send", b"[[],{}]")]))

    async def use(app):
        async with app.run_test(size=(80, 24)) as pilot:
            await shown(pilot, lambda: [row[0][:7] for row in cells(app)] == ["default", "qqqqqqq", "reports"])
            table = app.query_one(DataTable)
            notes = table.columns[list(table.columns)[-1]]
            assert table.virtual_size.width - notes.get_render_width(table) <= 80
            assert cells(app)[1][1] == "1"
            await pilot.press("3")
            await shown(pilot, lambda: cells(app) and cells(app)[0][1] == "send")
            await pilot.press("enter")
            await shown(pilot, lambda: len(app.screen_stack) == 2)
            await shown(pilot, lambda: "q" in [key.key_display for key in app.screen.query("FooterKey")])
            assert app.screen.query_one(Static).content.spans
            await pilot.press("q", "q")

    with connect(desk.settings, Path("/")) as connection:
        asyncio.run(use(opened(desk, connection)))


@pytest.mark.proof
def test_a_group_of_this_host_is_restarted_and_of_another_one_named(desk):
    """After a question; the daemon is asked for the group by the worker's process."""
    asked = []
    here = socket.gethostname()
    desk.run(desk.verbs.announce(f"{here}.7", {"group": "main", "state": "idle"}))
    desk.run(desk.verbs.announce("zz-far.8", {"group": "other", "state": "idle"}))

    def restart(group, pid):
        asked.append((group, pid))
        return "replaced"

    async def use(app):
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.press("2")
            await shown(pilot, lambda: [row[1] for row in cells(app)] == ["main", "other"])
            for news in ("main: replaced", "other runs on zz-far"):
                await pilot.press("g")
                await shown(pilot, lambda: len(app.screen_stack) == 2)
                await pilot.press("y")
                await shown(pilot, lambda news=news: news in said(app, "#news"))
                await pilot.press("down")
            await pilot.press("q")

    with connect(desk.settings, Path("/")) as connection:
        asyncio.run(use(opened(desk, connection, restart)))
    assert asked == [("main", 7)]


def test_it_draws_a_real_terminal_and_leaves_it_as_it_was(desk):
    """From a shell, over a pseudo-terminal; q ends it with status 0."""
    name = desk.enqueued("send")
    screen = pyte.Screen(100, 30)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    before = termios.tcgetattr(ours)
    environment = {**os.environ, "TERM": "xterm-256color", "FUSION_URL": desk.settings.url}
    command = [sys.executable, "-P", "-m", "fusiond.cli", "top"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=desk.cwd)

    def until_drawn(text):
        deadline = time.monotonic() + PATIENCE
        while text not in "\n".join(screen.display):
            assert time.monotonic() < deadline, "\n".join(screen.display)
            read()

    def read():
        if select.select([ours], [], [], 0.05)[0]:
            stream.feed(os.read(ours, 65536))

    try:
        until_drawn("reports")
        os.write(ours, b"3")
        until_drawn(name)
        os.write(ours, b"q")
        while process.poll() is None:
            read()
        assert process.returncode == 0
        assert termios.tcgetattr(ours)[:4] == before[:4]
    finally:
        process.kill()
        process.wait()
        for each in (ours, theirs):
            os.close(each)


def test_without_a_terminal_it_names_what_prints_into_a_pipe(desk):
    """Status 2, one sentence."""
    done = desk.fusiond("top")
    assert (done.status, done.err) == (2, "fusiond: top needs a terminal; fusiond status --watch prints into a pipe\n")


@pytest.mark.parametrize(("absent", "named"), [(["textual", "rich"], "textual and rich"), (["rich"], "rich")])
def test_without_the_extra_it_says_what_installs_it(monkeypatch, capsys, absent, named):
    """Status 1, one sentence, before anything is asked; also where only a part is missing."""
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(sys, stream, Terminal())
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    assert main(["top", "--url", "unix:///nothing.sock"]) == 1
    assert capsys.readouterr().err == f"fusiond: top: {named} not installed; pip install 'fusiond[top]'\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True
