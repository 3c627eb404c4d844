"""
Ask the running daemon, over its control socket: XML-RPC with the standard library, no supervisor.

The verbs are those of `fusiond/supervise/supervisord/rpc.py`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import xmlrpc.client
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

from fusiond.errors import ControlError
from fusiond.locate.pointers import Peer, peer_of

#: seconds; a reload waits for programs to import their tasks
TIMEOUT = 120.0
#: verbs that change nothing: asked again if the daemon hangs up, as it does on one of too many connections
_HARMLESS = frozenset({"identity", "status"})


def ask(
    control: Path,
    verb: str,
    *arguments: str,
    timeout: float = TIMEOUT,
    check: Callable[[Peer], None] | None = None,
) -> Any:
    """
    The daemon's answer to a verb: the JSON object that `FusionNamespace` or `status_document.py` describes.

    Args:
        control: its socket, `paths.control_socket(runtime)`.
        verb: one of `FusionNamespace`, such as `status`.
        arguments: of the verb.
        timeout: seconds.
        check: called with the process that listens, before anything is sent to it; raises ControlError to refuse it.

    Raises:
        ControlError: nobody listens there, this user may not ask, or the answer did not come in time.
    """
    body = xmlrpc.client.dumps(arguments, f"fusion.{verb}")
    for _ in range(2 if verb in _HARMLESS else 1):
        try:
            with contextlib.closing(_Connection(control, timeout, check)) as connection:
                connection.request("POST", "/RPC2", body, {"Content-Type": "text/xml"})
                (value,), _ = xmlrpc.client.loads(connection.getresponse().read())
                return json.loads(str(value))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise ControlError(f"no daemon listens on {control}; start one with fusiond run") from error
        except PermissionError as error:
            raise ControlError(
                f"{control}: this user may not speak to the daemon; be its user, or a member of control.group"
            ) from error
        except TimeoutError as error:
            raise ControlError(f"{control}: the daemon did not answer {verb} within {timeout:g} s") from error
        except xmlrpc.client.Fault as fault:
            raise ControlError(f"the daemon refused {verb}: {fault.faultString}") from fault
        except (OSError, http.client.HTTPException, xmlrpc.client.Error, ExpatError, ValueError) as error:
            hung_up = error
    raise ControlError(f"{control}: the daemon hung up in the middle of {verb} ({hung_up!r})") from hung_up


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, control: Path, timeout: float, check: Callable[[Peer], None] | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._control, self._check = control, check

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._control))
        if self._check is not None:
            self._check(peer_of(self.sock))
