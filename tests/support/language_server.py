"""
A real yaml-language-server, as an editor has it: LSP over standard input and output.

1. install   the pinned package by npm, once, into ~/.cache/fusiond-tests
2. start     it, and answer what it asks an editor
3. ask       diagnostics, hover and completion of a text
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from queue import Empty, Queue

PACKAGE = "yaml-language-server@2.0.0"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fusiond-tests" / PACKAGE.replace("@", "-")
_WITHIN = 30


def installed():
    """The server's program, installed where it is not yet; None: npm or its registry is not there."""
    program = _CACHE / "node_modules" / ".bin" / "yaml-language-server"
    if shutil.which("npm") is None or shutil.which("node") is None:
        return None
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the tests' other processes wait for the first one
        if not program.exists():
            command = [
                "npm",
                "install",
                "--no-fund",
                "--no-audit",
                "--ignore-scripts",
                "--prefix",
                str(_CACHE),
                PACKAGE,
            ]
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(command, capture_output=True, check=False, timeout=90)
    return program if program.exists() else None


class LanguageServer:
    """One server, and the texts that are open in it."""

    def __init__(self, program, root):
        self._process = subprocess.Popen([program, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root)
        self._answers, self._diagnostics = Queue(), Queue()
        self._number, self._root = 0, root
        threading.Thread(target=self._listen, daemon=True).start()
        self._ask("initialize", processId=os.getpid(), rootUri=root.as_uri(), capabilities=_CAPABILITIES)
        self._tell("initialized")

    def open(self, text):
        """A text as a new file; returns its URI."""
        self._number += 1
        uri = (self._root / f"{self._number}.yaml").as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self._tell("textDocument/didOpen", textDocument=document)
        return uri

    def diagnostics(self, uri):
        """What the editor would underline: (line, column, message), from 1."""
        while True:
            found = self._diagnostics.get(timeout=_WITHIN)
            if found["uri"] == uri:
                starts = [(each["range"]["start"], each["message"]) for each in found["diagnostics"]]
                return [(start["line"] + 1, start["character"] + 1, message) for start, message in starts]

    def hover(self, uri, line, column):
        """The text that is shown over a place, from 1; empty where there is none."""
        found = self._ask("textDocument/hover", textDocument={"uri": uri}, position=_position(line, column))
        return found["contents"]["value"] if found else ""

    def completion(self, uri, line, column):
        """Label → documentation of what could be written at a place, from 1."""
        found = self._ask("textDocument/completion", textDocument={"uri": uri}, position=_position(line, column))
        items = found["items"] if isinstance(found, dict) else found
        return {item["label"]: _text(item.get("documentation", "")) for item in items}

    def close(self):
        """End it."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def _ask(self, method, **parameters):
        self._number += 1
        number = self._number
        self._send({"id": number, "method": method, "params": parameters})
        while True:
            try:
                answer = self._answers.get(timeout=_WITHIN)
            except Empty:
                raise AssertionError(f"no answer to {method}") from None
            if answer["id"] == number:
                return answer.get("result")

    def _tell(self, method, **parameters):
        self._send({"method": method, "params": parameters})

    def _send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _listen(self):
        with contextlib.suppress(ValueError, OSError):
            while (message := _read(self._process.stdout)) is not None:
                self._heard(message)

    def _heard(self, message):
        if message.get("method") == "textDocument/publishDiagnostics":
            self._diagnostics.put(message["params"])
        elif "method" in message and "id" in message:
            self._send({"id": message["id"], "result": _editor_says(message)})
        elif "id" in message:
            self._answers.put(message)


_CAPABILITIES = {
    "workspace": {"configuration": True},
    "textDocument": {
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "completion": {"completionItem": {"documentationFormat": ["markdown", "plaintext"], "snippetSupport": True}},
    },
}
#: no schema by name: a file names its own, in its first line
_SETTINGS = {"yaml": {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}}


def _editor_says(message):
    if message["method"] == "workspace/configuration":
        return [_SETTINGS.get(item.get("section")) for item in message["params"]["items"]]
    return None


def _read(stream):
    length = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(stream.read(length)) if length else None


def _position(line, column):
    return {"line": line - 1, "character": column - 1}


def _text(documentation):
    return documentation["value"] if isinstance(documentation, dict) else documentation
