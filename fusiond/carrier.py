"""
What the programs of sinks and outboxes share: one daemon of a namespace does the work for a name, the others stand by.

1. hold     a lease in Redis, and say so again until the end
2. follow   the configurations that the supervisor sends
3. end      when told, or with the supervisor
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fusiond import hook, logs
from fusiond.broker.event_records import DAEMONS
from fusiond.broker.redis.connection import connect_async
from fusiond.broker.redis.outage import Outage
from fusiond.broker.verbs import Verbs
from fusiond.config.accepted.snapshot import Snapshot, read_snapshot
from fusiond.errors import ConfigError
from fusiond.identity import daemon_id
from fusiond.program import Link, parser_of, run_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusiond.config.model import Config
    from fusiond.link_messages import Apply, Command

log = logging.getLogger(__name__)

#: ms for which a daemon does the work without saying so again
LEASE_MS: Final = 15_000
#: s; after which it says so again; after which the others ask
HOLD, STAND_BY = 4.0, 5.0
#: characters of a reason in an event
_REASON: Final = 1000


class Carrier(ABC):
    """One sink or outbox of this daemon."""

    def __init__(self, snapshot: Snapshot, name: str, link: Link, runtime: Path) -> None:
        settings = snapshot.config.broker
        self._name, self._link, self._token = name, link, daemon_id(snapshot.path.parent)
        self._verbs = Verbs(settings.namespace)
        self._connection = connect_async(settings, runtime)
        self._outage = Outage(connect_async(settings, runtime), self._verbs.keys)
        self._changed, self._ending = asyncio.Event(), False
        #: a configuration that holds from the next step on
        self._next_config: Config | None = None

    async def run(self) -> None:
        """Do the work until told to end."""
        self._link.end_by(self.end, self.on_command)
        self._link.say({"is": "ready"})
        await self.serve()

    @abstractmethod
    async def serve(self) -> None:
        """Do the work until `end`."""

    @abstractmethod
    def _is_in(self, config: Config) -> bool:
        """Whether a configuration has this sink or outbox."""

    def end(self) -> None:
        """Have `serve` return."""
        self._ending = True
        self._changed.set()

    def on_command(self, command: Command) -> None:
        """Handle a command of the supervisor."""
        if command["do"] == "drain":
            self.end()
        elif command["do"] == "apply":
            self._apply(command)

    def _apply(self, command: Apply) -> None:
        try:
            config = read_snapshot(command["snapshot"]).config
        except ConfigError as error:
            log.error("%s", error)
            return
        logs.set_level(config.logging.level)
        # A file without it comes when its program is told to end.
        if self._is_in(config):
            self._next_config = config
            self._changed.set()
        self._link.say({"is": "applied", "generation": command["generation"]})

    async def _record(self, event: str, message: str) -> None:
        """Add an event of the daemons. Raises BrokerError."""
        words = [("o", self._name), *([("m", message[:_REASON])] if message else [])]
        await self._connection.run(self._verbs.record_event(DAEMONS, event, words=words))


def run_carrier(kind: str, load: Callable[[], type[Carrier]]) -> int:
    """
    The program of a sink or an outbox; returns the exit status.

    Args:
        kind: `sink` or `outbox`; so is the option called that has the name.
        load: imports what does the work; raises FusionError if it is not installed.
    """

    def main(link: Link) -> int:
        parser = parser_of(f"fusiond {kind}")
        parser.add_argument(f"--{kind}", dest="name", required=True)
        given = parser.parse_args()
        snapshot = read_snapshot(given.snapshot)
        logs.setup(snapshot.config.logging, link.name or f"{kind}:{given.name}", link.tail)
        carrier = load()
        hook.run(kind, given.name)

        async def run() -> None:
            await carrier(snapshot, given.name, link, given.runtime).run()

        asyncio.run(run())
        return 0

    return run_program(main)
