"""
The exit statuses of the daemon's programs, and the link of each to the supervisor.

1. say      ready, failed, applied, busy: one JSON object per packet
2. hear     apply, go, drain, leave
3. answer   the supervisor's question: `alive` at once, `checked` when a check has shown whether the program can serve
4. end      when the link is lost: the supervisor has died, and the next one must find none of its programs

A program that was started by hand has no link: it sends nothing, receives nothing and never waits.
The link runs on the program's own asyncio loop. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    import asyncio
    from collections.abc import Awaitable, Callable

    from fusiond.link_messages import Command, Report

    #: returns why the program cannot serve now; "" if it can
    Check = Callable[[], Awaitable[str]]

#: number of the inherited descriptor
LINK = "FUSIOND_LINK"
#: the program's name, such as `worker:main@3`
NAME = "FUSIOND_PROGRAM"
#: the file for the last lines of the log, which `supervisorctl tail` shows
TAIL = "FUSIOND_TAIL"

#: variables of the daemon that no program gets, nor its helper
PRIVATE = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")

#: exit status of a program that cannot run as configured (sysexits.h); if it was never ready, it is not restarted
EX_CONFIG = 78
#: exit status after any other error
EX_SOFTWARE = 70

#: seconds that the check may take
CHECK = 1.0

#: bytes; the longest packet is a path and a number
_PACKET = 64 * 1024
log = logging.getLogger(__name__)


def run_program(body: Callable[[Link], int]) -> int:
    """
    Run a program with its link; returns the exit status.

    An error of `body` is logged, and the supervisor is told the reason in one sentence.
    """
    # here: the program of the embedded Redis loads this file without the package
    from fusiond import logs
    from fusiond.errors import FusionError

    link = Link.from_environment()
    try:
        return body(link)
    except FusionError as error:
        tasks = getattr(error, "tasks", [])
        if not tasks:  # otherwise the reload that is refused for them tells it
            log.error("%s", error)
        link.say({"is": "failed", "reason": str(error), "tasks": tasks})
        return EX_CONFIG
    except Exception as error:
        log.exception("this program ends")
        link.say({"is": "failed", "reason": f"{type(error).__name__}: {error}"})
        return EX_SOFTWARE
    finally:
        logs.stop()


def parser_of(module: str) -> argparse.ArgumentParser:
    """The arguments that each program has which reads a snapshot."""
    import argparse

    parser = argparse.ArgumentParser(prog=module)
    parser.add_argument("--snapshot", type=Path, required=True)
    parser.add_argument("--runtime", type=Path, required=True)
    return parser


def on_failed_callback(then: Callable[[], object]) -> None:
    """
    Call `then` when a callback of the running loop has raised an exception; it is logged.

    Then the event that the callback handled, such as a child's death or a command, is lost: a program that went on
    would wait for it for ever.
    """
    import asyncio

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        if "handle" in context:
            then()

    asyncio.get_running_loop().set_exception_handler(handle)


async def wait_until_set(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, for at most so many seconds."""
    import asyncio

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class Link:
    """
    One program's socket to its supervisor.

    Attributes:
        name: the program's name as the supervisor knows it, or "".
        tail: the file for the last lines of its log, or None.
        socket: its end; None: there is no supervisor, or it has died.
    """

    def __init__(self, sock: socket.socket | None = None, *, name: str = "", tail: Path | None = None) -> None:
        self.name, self.tail = name, tail
        self.socket = sock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._check: Check | None = None
        self._checking: asyncio.Task[None] | None = None
        #: number of the supervisor's last question
        self._question = 0

    @classmethod
    def from_environment(cls) -> Link:
        """The link that this process inherited from the supervisor; removes its variables from `os.environ`."""
        number = os.environ.pop(LINK, "")
        name, tail = os.environ.pop(NAME, ""), os.environ.pop(TAIL, "")
        sock = None
        if number:
            os.set_inheritable(int(number), False)
            sock = socket.socket(fileno=int(number))
            sock.setblocking(False)
        return cls(sock, name=name, tail=Path(tail) if tail else None)

    def start(
        self, on_command: Callable[[Command], None], on_lost: Callable[[], object], check: Check | None = None
    ) -> None:
        """
        Call `on_command` for each command, and `on_lost` once if the supervisor dies, both on the running loop.

        `check` is awaited, for at most CHECK seconds, when the supervisor asks whether the program can serve.
        Without a link none of them is called.
        """
        self._check = check
        if self.socket is not None:
            import asyncio  # here: a program may have to start something before it loads so much

            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self.socket, self.hear, on_command, on_lost)

    def end_by(
        self, end: Callable[[], object], on_command: Callable[[Command], None], check: Check | None = None
    ) -> None:
        """`start`, and have SIGTERM, SIGINT, the supervisor's death and a callback that fails call `end`."""
        import asyncio

        on_failed_callback(end)
        self.start(on_command, end, check)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, end)

    def say(self, message: Report) -> None:
        """
        Send the supervisor a message: `link.say({"is": "ready"})`. Never blocks and never raises.

        If about 300 messages are unread, it is dropped. That happens only while the supervisor is stopped; when it
        continues, it asks again or ends.
        """
        if self.socket is not None:
            try:
                self.socket.send(json.dumps(message).encode(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except OSError as error:
                log.debug("the supervisor was not told %s: %s", message, error)

    def close(self) -> None:
        """Close the link; neither callback is called any more."""
        sock, self.socket = self.socket, None
        if self._checking is not None:
            self._checking.cancel()
        if sock is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(sock)
            sock.close()

    def hear(self, on_command: Callable[[Command], None], on_lost: Callable[[], object]) -> None:
        """Handle the packets that have arrived. The loop calls it after `start`; a program without a loop calls it."""
        while self.socket is not None:
            try:
                packet = self.socket.recv(_PACKET)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self.close()
                on_lost()
                return
            command: Command = json.loads(packet)
            if command["do"] == "answer":
                self._answer(command["n"])
            else:
                on_command(command)

    def _answer(self, number: int) -> None:
        """Say `alive` at once, and `checked` after the check."""
        self.say({"is": "alive", "n": number})
        self._question = number
        if self._loop is None:  # nor a check: only programs that use Redis have one
            self.say({"is": "checked", "n": number, "trouble": ""})
        elif self._checking is None:
            self._checking = self._loop.create_task(self._tell_checked())

    async def _tell_checked(self) -> None:
        """Check until the last question has its answer; questions that came during a check share the next one."""
        import asyncio

        told = 0
        try:
            while told != self._question:
                told, trouble = self._question, ""
                try:
                    async with asyncio.timeout(CHECK):
                        trouble = await self._check() if self._check else ""
                except TimeoutError:
                    trouble = f"it could not find out within {CHECK:g} s whether it can serve"
                self.say({"is": "checked", "n": told, "trouble": trouble})
        finally:
            self._checking = None
