"""A dashboard in a thread of the test, over a real Redis, and what asks it."""

import asyncio
import http.client
import json
import socket
import threading
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlencode

from fusiond.config import model
from fusiond.config.accepted import snapshot
from fusiond.config.model.web_face import Web
from fusiond.web.serving import WebProgram


class Reply(NamedTuple):
    """What the server answered."""

    status: int
    headers: http.client.HTTPMessage
    text: str

    @property
    def json(self):
        return json.loads(self.text)


class NoLink:
    """In place of the supervisor."""

    def say(self, message):
        """Nobody hears it."""


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a socket at a path."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


class Dashboard:
    """The program of the dashboard, without a supervisor above it."""

    def __init__(self, broker, directory, **config):
        self.directory = directory
        self.runtime = directory / "run"
        self.runtime.mkdir()
        web = {"listen": "127.0.0.1:0"} | config.pop("web", {})
        self.config = model.Config(broker=broker, web=Web(**web), **config)
        self.program = None
        self._thread = threading.Thread(target=self._run)
        self._listens = threading.Event()

    def _run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        self._loop = asyncio.get_running_loop()
        self.program = WebProgram(self._written(self.config, 1), NoLink(), self.runtime)
        # The kernel takes connections from the moment that it has an address, or it is told why there is none.
        self.program.on_listening = self._listens.set
        await self.program.serve()
        await self.program.close()

    def _written(self, config, generation):
        path = self.directory / "current.json"
        return snapshot.write(path, config, generation=generation, source=str(self.directory / "fusion.yaml"))

    def apply(self, **web):
        """A reload that changes keys of `web`."""
        self.config = replace(self.config, web=replace(self.config.web, **web))
        found = self._written(self.config, 2)
        command = {"do": "apply", "snapshot": str(found.path), "generation": 2}
        self.call(self.program.on_command, command)

    def call(self, function, *arguments):
        """Run a function in the program's thread; returns once it has ended."""
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (function(*arguments), done.set()))
        assert done.wait(30)

    def __enter__(self):
        self._thread.start()
        assert self._listens.wait(30)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self.program.end)
        self._thread.join(30)
        assert not self._thread.is_alive()

    @property
    def host(self):
        """Address and port; for a socket the name by which it is asked."""
        url = (self.runtime / "web.url").read_text()
        return "localhost" if url.startswith("unix:") else url.split("/")[2]

    @property
    def port(self):
        return int(self.host.rpartition(":")[2])

    @property
    def token(self):
        return (self.directory / "web-token").read_text().strip()

    def ask(self, method, path, body=None, **headers):
        """One request; `_` in the name of a header is a dash."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        if (path_of := self.config.web.socket) is not None:
            connection = SocketConnection(path_of)
        given = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
        try:
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read().decode())
        finally:
            connection.close()

    def get(self, path, **headers):
        """A page or a part of the API, with the token."""
        return self.ask("GET", path, **{"Authorization": f"Bearer {self.token}"} | headers)

    def post(self, path, said=None, **headers):
        """An action of the API, with the token."""
        return self.ask("POST", path, json.dumps(said or {}), **{"Authorization": f"Bearer {self.token}"} | headers)

    def log_in(self, token=None):
        """The reply to the login's form; its cookie is that of a session."""
        form = urlencode({"token": self.token if token is None else token})
        return self.ask("POST", "/login", form, Origin=f"http://{self.host}")
