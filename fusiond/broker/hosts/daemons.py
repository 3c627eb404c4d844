"""
The verbs of daemons: say what may be enqueued, which queues are served and that they are alive, and read what all say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from fusiond.broker.call import Call, Plan, decoded, nothing, plain, scripted
from fusiond.broker.hosts.catalogue import Registry, declared, registry
from fusiond.broker.hosts.host_records import NO_CATALOGUE, Catalogue, CronDeclaration, Declared, FileInForce
from fusiond.broker.keys import VerbGroup
from fusiond.broker.layout import layout_of, refuse_other
from fusiond.owners import Owners

#: ms for which what a daemon or a worker group says about itself holds; it is renewed every ALIVE_AGAIN seconds
ALIVE_MS = 30_000
ALIVE_AGAIN = 10.0
#: ms after its end that a daemon and what it declared are remembered, 7 days
FORGOTTEN_MS = 7 * 86_400_000


class Published(NamedTuple):
    """What a daemon has published last."""

    #: orders the hosts' configurations, newest highest
    generation: int
    #: of the configuration
    hash: str
    #: digest of what it declares, under which the catalogue holds that
    content: str

    def words(self) -> str:
        """As the daemon's record says it."""
        return " ".join(map(str, self))


class DaemonVerbs(VerbGroup):
    """Verbs about the daemons of all hosts, and about what their files declare."""

    def publish_catalogue(
        self,
        daemon: str,
        hash: str,
        tasks: Mapping[str, Mapping[str, object]],
        *,
        priorities: Mapping[str, int],
        queues: Iterable[str],
        cron: Mapping[str, Mapping[str, object]] | None = None,
        digests: Mapping[str, Mapping[str, str]] | None = None,
        flows: Mapping[str, Mapping[str, object]] | None = None,
        owners: Owners = MappingProxyType({}),
        before: str | None = None,
    ) -> Plan[Published]:
        """
        Tell producers what may be enqueued, and that this daemon is alive; `stay_alive` repeats the latter.

        Args:
            daemon: the daemon's own id, which stays over restarts.
            hash: of the configuration's content.
            tasks: task -> {queue, priority, expires in seconds or None, run, …}, whatever producers need, as JSON.
            priorities: the names of priorities.
            queues: all queues that the file declares.
            cron: entry -> {digest, task, schedule, …}, for other daemons that declare an entry of the same name.
            digests: kind -> name -> digest of what the file says of it, for `files_in_force`.
            flows: flow -> its shape, as `fusiond.flows.shapes` gives it.
            owners: who answers for what.
            before: the hash that this process has published last; None: what Redis knows of the daemon.

        Returns:
            what `stay_alive` and `end_daemon` repeat.
        """
        if before is None:
            before = yield plain(lambda record: [*_words(record).split(), "", ""][1], "HGET", self.keys.daemons, daemon)
        generation: int = yield scripted("generation", self.keys.meta, (hash, before), int)
        said = {"tasks": tasks, "priorities": priorities, "queues": sorted(queues), "cron": cron or {}}
        said |= {name: dict(each) for name, each in (("flows", flows), ("owners", owners)) if each}
        body = json.dumps({**said, "digests": digests or {}})
        published = Published(generation, hash, hashlib.sha256(body.encode()).hexdigest())
        # before the record that names it
        yield scripted("publish", self.keys.catalog, (published.content, FORGOTTEN_MS, body), nothing)
        yield self._alive(daemon, published.words(), ALIVE_MS)
        return published

    def stay_alive(self, daemon: str, published: Published) -> Plan[bool]:
        """
        Renew what `publish_catalogue` said; to be repeated well within ALIVE_MS.

        Returns:
            whether Redis still had it: otherwise it has lost it, or another daemon writes under the same id.
        """
        said, known = yield [
            self._alive(daemon, published.words(), ALIVE_MS),
            plain(bool, "HEXISTS", self.keys.catalog, published.content),
        ]
        return bool(known and said == published.words())

    def end_daemon(self, daemon: str, published: Published) -> Call[str]:
        """Say that the daemon has ended: what living ones declare counts before what it declared."""
        return self._alive(daemon, published.words(), 0)

    def serve(self, daemon: str, worker: str, queues: Iterable[str], tasks: Iterable[str] = ()) -> Call[str]:
        """
        Say from which queues a daemon's worker group claims; to be repeated well within ALIVE_MS. None: it ends.

        `tasks`: `!<task>` of each task of its file that does not load there; `<task>=<name>,…`: as its function names
        what calls pass by position.
        """
        names = list(queues)
        words = " ".join([*names, *tasks])
        return self._alive(f"{daemon}/{worker}", words, ALIVE_MS if names else 0)

    def catalogue(self, known: Catalogue = NO_CATALOGUE) -> Plan[Catalogue]:
        """What may be enqueued; `known` is what was read before, whose contents are not read again."""
        return (yield from self._read(known.contents)).catalogue()

    def cron_declarations(self) -> Plan[list[CronDeclaration]]:
        """Each cron entry of each daemon that ticks."""
        return (yield from self._read({})).cron_declarations()

    def files_in_force(self) -> Plan[list[FileInForce]]:
        """The configurations that living daemons of this namespace run, the newest generation first."""
        return (yield from self._read({})).files_in_force()

    def _read(self, known: Mapping[str, Declared]) -> Plan[Registry]:
        """All records, and by its digest what they declare. Raises BrokerUnfit for another layout."""
        found: Registry
        found, layout = yield [scripted("daemons", self.keys.daemons, (), registry), layout_of(self.keys)]
        refuse_other(layout, self.keys)
        wanted = {each.content for each in found.daemons}
        found.contents = {digest: said for digest, said in known.items() if digest in wanted}
        missing = sorted(wanted - known.keys())
        if missing:
            found.contents |= yield plain(_declarations(missing), "HMGET", self.keys.catalog, *missing)
        return found

    def _alive(self, name: str, words: str, ms: int) -> Call[str]:
        return scripted("alive", self.keys.daemons, (name, ms, FORGOTTEN_MS, words), _words)


def _declarations(digests: Sequence[str]) -> Callable[[Any], dict[str, Declared]]:
    """Reads what each digest stands for; those that Redis does not know are left out."""

    def parse(reply: Any) -> dict[str, Declared]:
        pairs = zip(digests, map(declared, reply), strict=True)
        return {digest: declaration for digest, declaration in pairs if declaration is not None}

    return parse


def _words(record: bytes | None) -> str:
    """What a record says, without its time; empty where there is none."""
    return decoded(record or b"").partition(" ")[2]
