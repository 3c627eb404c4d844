"""`fusiond pools`: the limits that tasks share."""

from __future__ import annotations

from typing import Any

from fusiond.cli import arguments
from fusiond.cli.find import broker
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import span


def register(subparsers: Any) -> None:
    """Add the command."""
    arguments.add_broker(arguments.command(subparsers, "pools", _list))


def _list(options: arguments.Options) -> None:
    """[broker] List pools: how many slots are held, and which tasks wait for some. `max_running` is one, too."""
    with broker.session(options) as session:
        uses = session.run(session.verbs.pool_uses())
    rows = [
        (name, use.slots or "", use.held, " ".join(use.waiters), span(use.oldest) if use.waiters else "")
        for name, use in uses.items()
    ]
    document, heads = {name: use._asdict() for name, use in uses.items()}, ("POOL", "SLOTS", "HELD", "WAITING", "FOR")
    arguments.answer(options, document, lambda: table(heads, rows, right="slots held"))
