"""`fusiond validate`, `schema` and `init`: the file, without a daemon and without Redis."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli.exits import OK, REFUSED, USAGE, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from fusiond.cli.table import Colour
    from fusiond.config.load import Loaded
    from fusiond.config.problems import Problem

_STDIN: Final = "-"
_STARTER: Final = "fusion.yaml"
_COLOURS: Final[dict[str, Colour]] = {"error": "red", "warning": "yellow", "dim": "dim"}


def register(subparsers: Any) -> None:
    """Add the three commands."""
    validate = subparsers.add_parser(
        "validate",
        help="check a file: print every problem with its place and remedy",
        description="Print every problem of a file. Needs neither Redis nor a daemon. docs/rules.md lists the codes.",
    )
    validate.add_argument(
        "files", nargs="*", metavar="FILE", help="- is standard input; default: the file that `run` would use"
    )
    validate.add_argument(
        "--format",
        choices=("text", "json", "sarif", "github"),
        help="default: text, or github if GITHUB_ACTIONS=true",
    )
    validate.add_argument("--json", action="store_const", const="json", dest="format", help="as --format json")
    validate.add_argument("--strict", action="store_true", help="warnings fail, too")
    validate.add_argument(
        "--imports",
        action="store_true",
        help="also load each task as its group would, with its user, interpreter, directory and environment",
    )
    validate.add_argument(
        "--import-timeout", metavar="TIME", default="30s", help="how long one import may take; default: 30s"
    )
    validate.add_argument(
        "--elsewhere",
        action="store_true",
        help="the file is for another machine: ignore users, directories and memory that this one lacks",
    )
    validate.add_argument(
        "--unit", type=Path, metavar="FILE", help="the systemd unit that will run it; default: this machine's, if any"
    )
    validate.set_defaults(handler=_validate)

    schema = subparsers.add_parser("schema", help="print the JSON Schema of the file")
    schema.set_defaults(handler=_schema)

    init = subparsers.add_parser("init", help="write a commented file to start from")
    init.add_argument("file", nargs="?", default=_STARTER, metavar="FILE", help=f"default: {_STARTER}; - prints it")
    init.add_argument("--force", action="store_true", help="write over a file that exists")
    init.set_defaults(handler=_init)


def _validate(options: argparse.Namespace) -> int:
    names = dict.fromkeys(options.files or [_found()])
    patience = _patience(options.import_timeout) if options.imports else None
    results = {name: _load(name, options, patience) for name in names}
    problems = [problem for loaded in results.values() for problem in loaded.problems]
    report = _FACES.get(options.format or _default_format())
    if report is not None:
        print(report(problems), end="")
    else:
        for name, loaded in results.items():
            print(_report(name, loaded))
    return _status(problems, strict=options.strict)


def _default_format() -> str:
    return "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text"


def _patience(text: str) -> float:
    from fusiond.config.units import seconds

    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"--import-timeout: {error}") from error


def _json(problems: Sequence[Problem]) -> str:
    from fusiond.config.lint.reports import as_json

    return as_json(problems) + "\n"


def _sarif(problems: Sequence[Problem]) -> str:
    from importlib.metadata import version

    from fusiond.config.lint.reports import as_sarif

    return as_sarif(problems, version("fusiond")) + "\n"


def _github(problems: Sequence[Problem]) -> str:
    from fusiond.config.lint.reports import as_github

    return as_github(problems, os.environ) + "\n" * bool(problems)


#: how all problems together are printed; what is not here is told file by file
_FACES: Final[dict[str, Callable[[Sequence[Problem]], str]]] = {"json": _json, "sarif": _sarif, "github": _github}


def _load(name: str, options: argparse.Namespace, patience: float | None) -> Loaded:
    """Read and check a file; `patience`: s that each import may take, None where none is to be tried."""
    from fusiond.config.load import load

    data = sys.stdin.buffer.read() if name == _STDIN else None
    path = "<stdin>" if name == _STDIN else name
    loaded = load(path, environ=os.environ, data=data, elsewhere=options.elsewhere, unit_file=options.unit)
    return loaded if patience is None else with_imports(loaded, patience)


def with_imports(loaded: Loaded, patience: float) -> Loaded:
    """The same with what importing found; a file with errors names no task that could be loaded."""
    if loaded.config is None or loaded.root is None:
        return loaded
    from dataclasses import replace

    from fusiond.config.lint import task_code
    from fusiond.worker.pool.import_probes import probe

    found = set(task_code.check(loaded.root, loaded.config, probe(loaded.config, patience)))
    config = None if any(problem.is_error for problem in found) else loaded.config
    return replace(loaded, config=config, problems=tuple(sorted({*loaded.problems, *found})))


def _found() -> str:
    """The file that `run` would take, as short as it can be named."""
    from fusiond.errors import ConfigError
    from fusiond.paths import find_config

    try:
        path = find_config()
    except ConfigError as error:
        raise UsageError(str(error)) from error
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _report(name: str, loaded: Loaded) -> str:
    """The problems of one file and a last line that sums up."""
    from fusiond.config.lint.reports import as_text

    lines = [as_text(loaded.problems, _paint)] if loaded.problems else []
    errors = sum(problem.is_error for problem in loaded.problems)
    found = [_count(errors, "error")] * bool(errors)
    found += [_count(len(loaded.problems) - errors, "warning")] * (len(loaded.problems) > errors)
    if loaded.config is not None:
        config = loaded.config
        counts = (
            _count(len(config.tasks), "task"),
            _count(len(config.queues), "queue"),
            _count(len(config.cron), "cron entry", "cron entries"),
            _count(len(config.workers), "worker group"),
        )
        found.insert(0, f"ok: {', '.join(counts)}")
    return "\n".join([*lines, f"{'<stdin>' if name == _STDIN else name}: {'; '.join(found)}"])


def _paint(text: str, kind: str) -> str:
    from fusiond.cli.table import paint

    return paint(text, _COLOURS.get(kind))


def _status(problems: Sequence[Problem], *, strict: bool) -> int:
    if any(problem.code == "unreadable" for problem in problems):
        return USAGE
    return REFUSED if any(problem.is_error or strict for problem in problems) else OK


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def _schema(_options: argparse.Namespace) -> int:
    from fusiond.config.schema import schema_text

    print(schema_text(), end="")
    return OK


def _init(options: argparse.Namespace) -> int:
    from fusiond.config import starter_text

    if options.file == _STDIN:
        print(starter_text(), end="")
        return OK
    try:
        with open(options.file, "w" if options.force else "x", encoding="utf-8") as file:  # noqa: PTH123 - "x"
            file.write(starter_text())
    except FileExistsError as error:
        raise UsageError(f"{options.file} exists already; name another file, or write over it with --force") from error
    except OSError as error:
        raise UsageError(f"{options.file} cannot be written: {(error.strerror or str(error)).lower()}") from error
    print(f"{options.file} is written; now: fusiond run -c {options.file}")
    return OK
