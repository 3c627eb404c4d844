"""
Events of one daemon: reloads, and decisions about cron entries. They are noted at any time, and told in the next round.

Until they are told, they are in the state directory (event_spool.py): a kill loses none. Where nothing can be written
there, the newest ones are kept in the memory of this program.
"""

from __future__ import annotations

import socket
from collections import deque
from pathlib import Path
from typing import Any

from fusiond.broker.event_records import DAEMONS
from fusiond.broker.redis.connection import AsyncConnection
from fusiond.broker.verbs import Verbs
from fusiond.event_spool import EventSpool
from fusiond.schedule.publishing import refusals_logged

#: events that wait for Redis in memory
_MOST = 1000
#: characters of a message
_MESSAGE = 1000
#: ms; what is told later says when it happened
_LATE = 1000


class DaemonEvents:
    """What one daemon has to tell."""

    def __init__(self, broker: Verbs, connection: AsyncConnection, daemon: str, state: Path) -> None:
        """`daemon`: its id; `state`: its state directory."""
        self._broker, self._connection, self._daemon = broker, connection, daemon
        self._spool = EventSpool(state)
        #: what could not be written
        self._in_memory: deque[dict[str, Any]] = deque(maxlen=_MOST)
        #: whether somebody wants them
        self.is_on = False

    def note(
        self, event: str, message: str = "", *, about: str = "", who: str = "", once: tuple[str, str] | tuple[()] = ()
    ) -> None:
        """
        Something has happened.

        `about`: such as a cron entry; `who`: asked for it; `once`: of several daemons that note the same, one tells it:
        name and value.
        """
        noted = {"event": event, "message": message, "about": about, "who": who, "once": list(once)}
        if self.is_on and not self._spool.put(noted):
            self._in_memory.append(noted)

    async def run_once(self) -> None:
        """Tell what was noted. Raises BrokerUnavailable; then it stays noted."""
        while self._in_memory:
            await self._tell(self._in_memory[0], "", 0)
            self._in_memory.popleft()
        while found := self._spool.take():
            name, noted = found
            if self.is_on:
                await self._tell(noted, name, self._spool.age_ms(name))
            self._spool.drop(name)

    async def _tell(self, noted: dict[str, Any], name: str, age_ms: int) -> None:
        said = {letter: str(noted.get(key) or "") for letter, key in (("o", "about"), ("m", "message"))}
        said |= {"h": socket.gethostname(), "l": str(age_ms) if age_ms > _LATE else ""}
        words = [(letter, text[:_MESSAGE]) for letter, text in said.items() if text]
        once = tuple(map(str, noted.get("once") or ())) or (name and (f"untold {self._daemon}", name)) or ()
        who = str(noted.get("who") or "")
        with refusals_logged("an event was not told"):
            call = self._broker.record_event(DAEMONS, str(noted.get("event")), who, words, once)  # type: ignore[arg-type]
            await self._connection.run(call)
