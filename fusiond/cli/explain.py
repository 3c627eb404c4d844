"""`fusiond explain`: every effective value of the file, and the line that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import source
from fusiond.cli.exits import OK
from fusiond.cli.table import print_json, table

if TYPE_CHECKING:
    import argparse

#: what can be explained, and the section that it is in
_SECTIONS: Final = {"task": "tasks", "queue": "queues", "group": "workers", "cron": "cron"}


def register(subparsers: Any) -> None:
    """Add `explain`."""
    parser = subparsers.add_parser(
        "explain",
        help="show each effective value of a task, queue, group or cron entry, and which line sets it",
        description="Reads only the file. What may be a secret is shown as ***, text from ${VAR} as it is in the file.",
    )
    parser.add_argument("what", choices=tuple(_SECTIONS), metavar="task|queue|group|cron")
    parser.add_argument("name", metavar="NAME")
    source.add_file_option(parser)
    source.add_json_option(parser)
    parser.set_defaults(handler=_explain)


def _explain(options: argparse.Namespace) -> int:
    from fusiond.config.accepted import explain

    root, config = source.read(source.found(options))
    known = getattr(config, _SECTIONS[options.what])
    if options.name not in known:
        raise source.unknown("cron entry" if options.what == "cron" else options.what, options.name, known)
    values = getattr(explain, options.what)(root, config, options.name)
    if options.json:
        print_json(
            [
                {
                    "key": value.key,
                    "value": value.value,
                    "said_by": value.said_by or None,
                    "file": value.file,
                    "line": value.line,
                    "column": value.column,
                }
                for value in values
            ]
        )
        return OK
    rows = ((value.key, value.shown, value.where, value.said_by) for value in values)
    print(table(("KEY", "VALUE", "WHERE", "SAID BY"), rows))
    return OK
