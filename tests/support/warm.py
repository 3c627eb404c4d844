"""Programs that begin at once: forks of a process that has loaded their modules."""

import ctypes
import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.warm_server import Forked

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_libc = ctypes.CDLL(None)


class Warm:
    """One process of warm_server.py."""

    def __init__(self):
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = Path(__file__).with_name("warm_server.py")
        # What a test has made of this process, a subreaper, would have it inherit the server.
        is_subreaper = ctypes.c_int()
        _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(is_subreaper), 0, 0, 0)
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        subprocess.run(
            [sys.executable, "-P", str(server), str(theirs.fileno())], pass_fds=[theirs.fileno()], check=True
        )
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, is_subreaper.value, 0, 0, 0)
        theirs.close()

    def start(self, entry, arguments, *, environment, directory, out, err=None, given=None, kept=(), session=False):
        """
        A program; what can be asked of it is what Popen can be asked.

        Args:
            entry: module:function, which returns the exit status; or a script.
            arguments: its `sys.argv`.
            environment: all of it.
            directory: where it works.
            out: the file of its output.
            err: that of its errors, if it is another one.
            given: the file of its input; none: it has no input.
            kept: descriptors that it has as 100 and so on.
            session: whether it begins a session.
        """
        ended, status = os.pipe()
        request = {
            "entry": entry, "arguments": arguments, "environment": dict(environment), "directory": str(directory),
            "kept": [100 + place for place, _ in enumerate(kept)], "session": session, "woken": 0,
        }  # fmt: skip
        with Path(os.devnull).open() as null:
            streams = [each.fileno() for each in (given or null, out, err or out)]
            socket.send_fds(self._socket, [json.dumps(request).encode()], [*streams, status, *kept])
        os.close(status)
        return Forked(int(self._socket.recv(32)), ended)


@cache
def warm():
    """The one of this test process."""
    return Warm()


def is_enough(environment):
    """Whether a fork is the same as a new interpreter with these variables: nothing else reads them at its start."""
    return not any(name.startswith("PYTHON") for name in environment or ())
