"""`fusiond validate`, `explain` and `schema`: the file, without a daemon and without Redis."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import OK, REFUSED, USAGE
from fusiond.cli.find import entry, file
from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.table import table
from fusiond.cli.terminal.text import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fusiond.config.accepted.explain import Value
    from fusiond.config.load import Loaded

_STDIN: Final = "-"
#: columns of a value that `explain` shows; a longer one goes on in the next row
_VALUE_WIDTH: Final = 60
_FORMATS: Final = ("text", "json", "sarif", "github")
#: what can be explained → its section of the file
_SECTIONS: Final = {"task": "tasks", "queue": "queues", "group": "workers", "flow": "flows", "cron": "cron"}


def register(subparsers: Any) -> None:
    """Add the commands."""
    validate = arguments.command(subparsers, "validate", _validate)
    add = validate.add_argument
    add("files", nargs="*", metavar="FILE", help="- is standard input; default: the file that `run` would use")
    arguments.add_file(validate)
    add("--format", choices=_FORMATS, help="default: text, or github if GITHUB_ACTIONS=true")
    add("--json", action="store_const", const="json", dest="format", help="as --format json")
    add("--strict", action="store_true", help="warnings fail, too")
    add("--imports", action="store_true", help="also load each task as its group would")
    add("--import-timeout", type=arguments.positive_duration, default=30.0, metavar="TIME", help="default: 30s")
    add("--elsewhere", action="store_true", help="for another machine: do not check users, directories and memory")
    add("--unit", type=Path, metavar="FILE", help="the systemd unit that will run it; default: this machine's, if any")

    explain = arguments.command(subparsers, "explain", _explain)
    explain.add_argument("what", choices=tuple(_SECTIONS), metavar="task|queue|group|flow|cron")
    explain.add_argument("name", metavar="NAME")
    arguments.add_file(explain)
    arguments.add_json(explain)

    schema = arguments.command(subparsers, "schema", _schema)
    schema.add_argument("--tests", action="store_true", help="that of fusion.tests.yml")


def _validate(options: arguments.Options) -> int:
    """
    Check a file: print every problem with its place and remedy.

    Needs neither Redis nor a daemon. docs/rules.md lists the codes.
    """
    named = options.files or [str(file.short_path(options.config))]
    names = ["<stdin>" if name == _STDIN else name for name in named]
    results = {name: _load(name, options) for name in dict.fromkeys(names)}
    style = options.format or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    _print(results, style, strict=options.strict, imports=options.imports)
    problems = [problem for loaded in results.values() for problem in loaded.problems]
    if any(problem.code == "unreadable" for problem in problems):
        return USAGE
    return REFUSED if any(problem.is_error or options.strict for problem in problems) else OK


def _load(name: str, options: arguments.Options) -> Loaded:
    """Read and check a file."""
    from fusiond.config.load import load

    data = sys.stdin.buffer.read() if name == "<stdin>" else None
    loaded = load(name, environ=os.environ, data=data, elsewhere=options.elsewhere, unit_file=options.unit)
    return with_imports(loaded, options.import_timeout, elsewhere=options.elsewhere) if options.imports else loaded


def with_imports(loaded: Loaded, timeout: float, *, elsewhere: bool = False) -> Loaded:
    """
    The same with the problems of importing each task, unless the file has errors.

    Args:
        loaded: the file.
        timeout: seconds for each task.
        elsewhere: groups of other hosts are loaded, too.
    """
    if loaded.config is None or loaded.tree.root is None:
        return loaded
    from dataclasses import replace

    from fusiond.config.lint import task_code
    from fusiond.worker.import_probes import probe

    functions = replace(loaded.config, tasks={name: task for name, task in loaded.config.tasks.items() if task.run})
    found = set(task_code.check(loaded.tree.root, loaded.config, probe(functions, timeout, elsewhere=elsewhere)))
    config = None if any(problem.is_error for problem in found) else loaded.config
    return replace(loaded, config=config, problems=tuple(sorted({*loaded.problems, *found})))


def _print(results: Mapping[str, Loaded], style: str, *, strict: bool, imports: bool) -> None:
    """Print the problems of all files: as text for each file, otherwise as one document."""
    from fusiond.config.lint.reports import DOCUMENTS

    if style == "text":
        for name, loaded in results.items():
            print(_report(name, loaded, strict=strict, imports=imports))
    elif document := DOCUMENTS[style]([problem for loaded in results.values() for problem in loaded.problems]):
        print(document)


def _report(name: str, loaded: Loaded, *, strict: bool, imports: bool) -> str:
    """The problems of a file, and a last line. `strict`: warnings fail, too; `imports`: the tasks were loaded."""
    from fusiond.config.lint.reports import as_text

    lines = [as_text(loaded.problems, paint)] if loaded.problems else []
    errors = sum(problem.is_error for problem in loaded.problems)
    warnings = len(loaded.problems) - errors
    found = [count(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number]
    if strict and warnings and not errors:
        found = [f"{found[0]}, which {'fails' if warnings == 1 else 'fail'} with --strict"]
    elif (config := loaded.config) is not None:
        entries = (
            count(len(config.tasks), "task"),
            count(len(config.queues), "queue"),
            count(len(config.cron), "cron entry", "cron entries"),
            count(len(config.workers), "worker group"),
        )
        found.insert(0, f"ok: {', '.join(entries)}")
        if config.tasks and not imports:
            found.append("tasks not loaded (see --imports)")
    return "\n".join([*lines, f"{name}: {'; '.join(found)}"])


def _explain(options: arguments.Options) -> None:
    """
    Show each effective value of a task, queue, group, flow or cron entry, and which line sets it.

    Reads only the file. What may be a secret is shown as ***, text from ${VAR} as it is in the file.
    """
    from fusiond.config.accepted import explain

    root, config = file.read(file.short_path(options.config))
    what = "cron entry" if options.what == "cron" else options.what
    entry(what, getattr(config, _SECTIONS[options.what]), options.name)  # raises if there is none
    values = getattr(explain, options.what)(root, config, options.name)
    keys = ("key", "value", "file", "line", "column", "set_by")
    document = [{key: getattr(value, key) for key in keys} for value in values]
    rows = (row for value in values for row in _rows(value))
    arguments.answer(options, document, lambda: table(("KEY", "VALUE", "WHERE", "SET BY"), rows))


def _rows(value: Value) -> Iterator[tuple[str, str, str, str]]:
    """One row, and further ones for what of a long value does not fit into the column."""
    first, *others = wrap(value.shown, _VALUE_WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    yield value.key, first, value.where, value.set_by or ""
    yield from (("", other, "", "") for other in others)


def _schema(options: arguments.Options) -> None:
    """Print the JSON Schema of the file."""
    from fusiond.config.schema import schema_text

    print(schema_text("fusion-tests" if options.tests else "fusion"), end="")
