"""
How many connections and requests there may be, and how long each may be silent.

1. silent   a connection without a request. Its next request's header must be there within HEADER seconds. If there are
            too many, the one that has been silent longest is closed: a new one is always let in
2. request  is refused if too many others run: 429 if from its address, otherwise 503. Requests to PROBES have places of
            their own

The bounds for one address do not hold for the addresses of `web.trusted_proxies`, nor where there is no address.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from fusiond.web.access import Address
from fusiond.web.responses import Refusal

if TYPE_CHECKING:
    from starlette.types import Scope

#: seconds until the header of a request is there
HEADER = 5.0
#: silent connections, requests, requests to PROBES, at once
MOST, MOST_PROBES = 200, 20
#: the same from one address: silent connections, requests
MOST_OF_ONE = 64
#: paths that programs watch
PROBES = frozenset({"/livez", "/readyz", "/metrics"})
#: seconds between two lines of the log about one bound
_QUIET = 60.0
log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Visit:
    """One connection."""

    transport: asyncio.Transport
    #: for which it counts; empty: for none
    address: str
    #: its address, or `uid N` of the process that connected to the socket
    peer: str
    #: its requests that run: more than one only while one ends
    requests: int = 0
    #: closes it; None: it is not silent
    timer: asyncio.TimerHandle | None = None


class Door:
    """The connections and requests of one dashboard."""

    def __init__(self, is_unbounded: Callable[[Address], bool]) -> None:
        self._is_unbounded = is_unbounded
        #: the one that has been silent longest is the first
        self._silent: dict[Visit, None] = {}
        #: address → requests that run; "probes" is for those to PROBES
        self._running: Counter[str] = Counter()
        self._logged_at = float("-inf")

    def protocol(self) -> type[asyncio.Protocol]:
        """What uvicorn makes for each connection."""
        door = self

        class Connection(H11Protocol):
            """Each of its requests has the visit in its scope."""

            def __init__(self, *, app_state: dict[str, Any], **given: Any) -> None:
                self._visit_state = app_state = app_state.copy()
                super().__init__(app_state=app_state, **given)

            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                self._visit_state["visit"] = door.visit_of(transport)
                door.note_silent(self._visit_state["visit"])

            def connection_lost(self, exc: Exception | None) -> None:
                door.note_gone(self._visit_state["visit"])
                super().connection_lost(exc)

        return Connection

    def visit_of(self, transport: asyncio.Transport) -> Visit:
        """A connection that was just made."""
        peer = transport.get_extra_info("peername")
        if not isinstance(peer, tuple):
            return Visit(transport, "", _user_of(transport.get_extra_info("socket")))
        address = ipaddress.ip_address(peer[0].partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        return Visit(transport, self._counted(address), str(address))

    def _counted(self, address: Address) -> str:
        """For which address a connection counts: one of IPv6 by its network, of which each site has a whole one."""
        if self._is_unbounded(address):
            return ""
        return str(address) if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))

    def note_silent(self, visit: Visit) -> None:
        """A connection waits for a request; the oldest one that does is closed if there are too many."""
        self._silent[visit] = None
        visit.timer = asyncio.get_running_loop().call_later(HEADER, visit.transport.abort)
        of_one = [each for each in self._silent if visit.address and each.address == visit.address]
        if len(of_one) > MOST_OF_ONE or len(self._silent) > MOST:
            oldest = of_one[0] if len(of_one) > MOST_OF_ONE else next(iter(self._silent))
            self.note_gone(oldest)
            oldest.transport.abort()

    def note_gone(self, visit: Visit) -> None:
        """A connection is not silent any more: it has a request, or is closed."""
        self._silent.pop(visit, None)
        if visit.timer is not None:
            visit.timer.cancel()

    @contextlib.contextmanager
    def request(self, scope: Scope, *, by_guess: bool = False) -> Iterator[Refusal | None]:
        """While a request runs; yields why it is refused. `by_guess`: by a wrong token, so without a probe's place."""
        visit: Visit = scope["state"]["visit"]
        self.note_gone(visit)
        place = "probes" if scope["path"] in PROBES and not by_guess else visit.address
        refusal = self._refusal(place)
        visit.requests += 1
        self._running[place] += 1
        try:
            yield refusal
        finally:
            visit.requests -= 1
            self._running[place] -= 1
            self._running += Counter()  # without the addresses that have none
            if not visit.requests and not visit.transport.is_closing():
                self.note_silent(visit)

    def _refusal(self, place: str) -> Refusal | None:
        running = self._running[place]
        if place == "probes":
            return Refusal(503, f"{MOST_PROBES} probes run already") if running >= MOST_PROBES else None
        if place and running >= MOST_OF_ONE:
            self._warn(f"{place} has {running} requests at once; if it is a proxy, add it to web.trusted_proxies")
            return Refusal(429, f"{MOST_OF_ONE} requests run for this address already")
        if self._running.total() - self._running["probes"] >= MOST:
            self._warn(f"{MOST} requests run at once; further ones get 503")
            return Refusal(503, f"{MOST} requests run already")
        return None

    def _warn(self, sentence: str) -> None:
        """Log it, at most once in a minute."""
        if time.monotonic() - self._logged_at > _QUIET:
            self._logged_at = time.monotonic()
            log.warning("%s", sentence)


def _user_of(sock: socket.socket) -> str:
    """Whose process is at the other end of a unix socket."""
    _, user, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return f"uid {user}"
