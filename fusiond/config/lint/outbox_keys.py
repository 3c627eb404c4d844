"""Outboxes: addresses of databases, keys that only PostgreSQL takes, names of tasks, times."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import filter as matching
from typing import Final

from fusiond.config.database_url import keys_of_postgresql, parse_database_url
from fusiond.config.endpoints import BadUrl
from fusiond.config.lint.suggest import Suggestions
from fusiond.config.model import Config, Outbox
from fusiond.config.problems import Problem, mask
from fusiond.config.units import written
from fusiond.config.yaml.nodes import Node, Place

_VARIABLE: Final = re.compile(r"\$\{[^}]*\}")


def check_tasks(root: Node) -> Iterator[Problem]:
    """Each name or pattern that no task of the file has."""
    tasks = root.names("tasks")
    suggest = Suggestions(tasks)
    for _, outbox in root.entries("outboxes"):
        for item in outbox.items("tasks"):
            if isinstance(item.value, str) and item.value not in tasks and not matching(tasks, item.value):
                remedy = suggest(item.value) or "write the name of a task, or a pattern such as send_*"
                yield item.place.error("unknown-task", f"no task is called {item.raw!r}", remedy)


def check(root: Node, config: Config) -> Iterator[Problem]:
    """Each value of an outbox that cannot be used, or does not do what it seems to do."""
    tables: dict[tuple[str | None, ...], str] = {}
    for name, outbox in config.outboxes.items():
        other = tables.setdefault((outbox.url, outbox.url_file, outbox.schema, outbox.table), name)
        if other != name:
            message = f"outboxes '{other}' and '{name}' have one table, so a row could become two jobs"
            yield root.names("outboxes")[name].error(
                "shared-table", message, "remove one of them, or name another table"
            )
        if (url := root.get("outboxes", name, "url")) is not None:
            yield from _address(url, outbox, root.names("outboxes", name))
        if outbox.poll == 0:
            place = root.nearest("outboxes", name, "poll")
            yield place.error("out-of-range", "poll: 0s would ask the database without a pause", "write 100ms or more")
        least = config.least_receipt_ttl(outbox)
        if config.receipt_ttl(outbox) < least:
            message = f"receipts are kept for less than {written(least)}: a job that runs later may take effect twice"
            place = root.nearest("outboxes", name, "receipt_ttl")
            yield place.warning("short-receipts", message, f"write {written(least)} or more, or remove the key")


def _address(node: Node, outbox: Outbox, keys: Mapping[str, Place]) -> Iterator[Problem]:
    """An address that cannot be used, or has its password in the file; keys that its database does not take."""
    try:
        url = parse_database_url(outbox.url or "")
    except BadUrl as error:
        yield node.place.error("bad-url", str(error), error.remedy)
        return
    plain = _VARIABLE.sub("", node.raw)
    if mask(plain) != plain:
        message = "the file has the password in plain text"
        yield node.place.warning("secret-in-clear", message, "use url_file, or ${DATABASE_URL}")
    for key in () if url.is_postgresql else keys_of_postgresql(outbox):
        yield keys[key].error("exclusive-keys", f"SQLite takes no {key}", "remove it, or use PostgreSQL")
