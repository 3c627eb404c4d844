"""
The program of the dashboard: it listens, takes over a new configuration in place, and ends in order.

1. listen   on the address or the socket of the file. If that is taken, say so, and try again: jobs run meanwhile
2. serve    with uvicorn
3. obey     apply: read the token again and listen on the new address; drain, SIGTERM, and the supervisor's death: end
            after the requests that run, within PATIENCE seconds
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from fusiond import hook, logs, paths
from fusiond.broker import script
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.config.model.web_face import Web
from fusiond.errors import FusionError
from fusiond.files import write_atomically
from fusiond.link_messages import Apply, Command
from fusiond.program import Link, wait_until_set
from fusiond.web.access import Access, read_tokens
from fusiond.web.application import application
from fusiond.web.backend import Backend
from fusiond.web.listening import listener, remove_stale, url_of
from fusiond.web.pulse import sample
from fusiond.web.site import Site

#: seconds between two tries to listen on an address that is taken
AGAIN = 5.0
#: seconds that requests may still run after the end was asked for
PATIENCE = 5
log = logging.getLogger(__name__)


async def run(snapshot: Snapshot, link: Link, runtime: Path) -> None:
    """Serve until told to end. Raises FusionError if the configuration names no token that can be read."""
    hook.run("web")
    script.load_all()
    program = WebProgram(snapshot, link, runtime)
    link.end_by(program.end, program.on_command, program.trouble)
    link.say({"is": "ready"})
    try:
        await program.serve()
    finally:
        await program.close()


class WebProgram:
    """One dashboard."""

    def __init__(self, snapshot: Snapshot, link: Link, runtime: Path) -> None:
        self._link, self._runtime = link, runtime
        self._state = snapshot.path.parent
        self._backend = Backend(snapshot, runtime)
        self._site = Site(self._backend, self._access(_settings(snapshot)))
        self._application = application(self._site)
        self._changed, self._ending = asyncio.Event(), False
        #: what it listens on; None: nothing
        self._listens: Web | None = None
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None
        #: why it does not listen on the address of the file; empty: it does
        self._refusal = ""
        #: called after each try to listen
        self.on_listening: Callable[[], object] = lambda: None

    def _access(self, settings: Web) -> Access:
        return Access(settings, read_tokens(settings, paths.web_token(self._state)))

    async def serve(self) -> None:
        """Listen and serve until `end`."""
        sampling = asyncio.create_task(sample(self._backend))
        while not self._ending:
            self._changed.clear()
            if self._is_elsewhere(self._site.access.settings):
                await self._listen(self._site.access.settings)
                self.on_listening()
            await wait_until_set(self._changed, AGAIN if self._refusal else float("inf"))
        sampling.cancel()
        await self._stop()

    async def close(self) -> None:
        """End the connection to Redis."""
        paths.web_url(self._runtime).unlink(missing_ok=True)
        await self._backend.close()

    def end(self) -> None:
        """Have `serve` return."""
        self._ending = True
        self._changed.set()

    async def trouble(self) -> str:
        """Why it does not listen; "" if it does. That Redis is away is shown on the pages."""
        return self._refusal

    def on_command(self, command: Command) -> None:
        """Handle a command of the supervisor."""
        if command["do"] == "apply":
            self._apply(command)
        elif command["do"] == "drain":
            self.end()

    def _apply(self, command: Apply) -> None:
        """Take over a new configuration; a token that cannot be read leaves the old one in force."""
        try:
            snapshot = read_snapshot(command["snapshot"])
            self._site.access = self._access(_settings(snapshot))
            self._backend.set_snapshot(snapshot)
            logs.set_level(snapshot.config.logging.level)
        except FusionError as error:
            log.error("%s; the dashboard goes on with the former settings", error)
        self._link.say({"is": "applied", "generation": command["generation"]})
        self._changed.set()

    def _is_elsewhere(self, wanted: Web) -> bool:
        """Whether it listens on nothing, or on something else than the file says."""
        now = self._listens
        return now is None or (now.listen, now.socket_group) != (wanted.listen, wanted.socket_group)

    async def _listen(self, settings: Web) -> None:
        """Serve on another address; what runs on the former one ends after it is known that this one is free."""
        if self._listens is not None and self._listens.listen == settings.listen:
            await self._stop()  # the same socket, for another group
        try:
            sock = listener(settings, self._runtime)
        except OSError as error:
            self._note_refusal(settings.listen, error)
            return
        await self._stop()
        where = settings.listen if settings.socket else url_of(settings.listen, sock.getsockname()[1])
        write_atomically(paths.web_url(self._runtime), f"{where}\n".encode(), durable=False)
        self._site.begin()
        self._server = _Server(_uvicorn_config(self._application, self._site.door.protocol()))
        self._serving = asyncio.create_task(self._server.serve(sockets=[sock]))
        self._listens, self._refusal = settings, ""
        self._tell(where)

    def _note_refusal(self, address: str, error: OSError) -> None:
        """Log once why it does not listen."""
        why = "is used by another program" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        sentence = f"web.listen: {address} {why}; write another address, or the dashboard waits until it is free"
        if sentence != self._refusal:
            log.warning("%s", sentence)
        self._refusal = sentence

    def _tell(self, where: str) -> None:
        """Where it is; on a terminal with the token, which no log may have."""
        log.info("the dashboard is on %s", where)
        if sys.stdout.isatty():
            token = self._site.access.token
            way = f"{where}login#{token}" if where.startswith("http") else f"through the proxy, with the token {token}"
            print(f"\n  log in to the dashboard:  {way}\n", flush=True)

    async def _stop(self) -> None:
        """End what listens now."""
        server, serving, listened = self._server, self._serving, self._listens
        self._server = self._serving = self._listens = None
        if server is not None and serving is not None:
            self._site.end_streams()
            server.should_exit = True
            await serving
        if listened is not None and listened.socket:
            with contextlib.suppress(OSError):  # another program has taken it
                remove_stale(Path(listened.socket))


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: the program has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn_config(app: Any, protocol: type[asyncio.Protocol]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        http=protocol,
        loop="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
        h11_max_incomplete_event_size=16 * 1024,
    )


def _settings(snapshot: Snapshot) -> Web:
    """Of a file without `web:` this program has the defaults, until the supervisor ends it."""
    return snapshot.config.web or Web()
