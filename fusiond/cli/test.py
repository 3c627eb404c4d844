"""`fusiond test`: whether what is promised of a file holds in a simulation."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import INTERRUPTED, OK, REFUSED, UsageError
from fusiond.cli.find import file
from fusiond.cli.terminal.colours import paint
from fusiond.cli.terminal.progress import Progress
from fusiond.cli.terminal.text import tell
from fusiond.errors import FusionError

if TYPE_CHECKING:
    from fusiond.config.model import Config
    from fusiond.simulation.promises import FileTest

_FORMATS: Final = ("text", "junit", "tap", "github", "json")


def register(subparsers: Any) -> None:
    """Add `test`."""
    parser = arguments.command(subparsers, "test", _test)
    add = parser.add_argument
    add("files", nargs="*", metavar="TESTS", help="default: beside the file, fusion.tests.yml for fusion.yaml")
    arguments.add_file(parser)
    add("--format", choices=_FORMATS, help="default: text, or github if GITHUB_ACTIONS=true")
    add("--json", action="store_const", const="json", dest="format", help="as --format json")


def _test(options: arguments.Options) -> int:
    """
    Check what is promised of a file, by simulations.

    Needs neither Redis nor a daemon. The promises stand beside the file; without -c, the file is the one beside TESTS.
    """
    from fusiond.simulation.promise_reports import DOCUMENTS, as_text

    found = []
    try:
        tests = [each for named in options.files or [None] for each in _tests(named, options)]
        with contextlib.suppress(KeyboardInterrupt), Progress("jobs simulated") as progress:
            for test, config in tests:
                found.append(test.run(config, progress.to))
    except FusionError as error:
        raise UsageError(str(error)) from error
    style = options.format or ("github" if os.environ.get("GITHUB_ACTIONS") == "true" else "text")
    print(as_text(found, paint) if style == "text" else DOCUMENTS[style](found))
    if len(found) < len(tests):
        tell(f"interrupted: {len(found)} of {len(tests)} tests were run")
        return INTERRUPTED
    return REFUSED if any(each.problems for each in found) else OK


def _tests(named: str | None, options: arguments.Options) -> list[tuple[FileTest, Config]]:
    """The tests of one file, each with the configuration that it is about. Raises FusionError."""
    from fusiond.config.yaml.includes import TESTS
    from fusiond.simulation.promises import make_tests, read_tests

    if named is None:
        main = file.short_path(options.config)
        config, root = file.read(main)[1], read_tests(main.with_suffix(TESTS), os.environ)
    else:
        path = Path(named)
        root = read_tests(path, os.environ)
        beside = [path.with_name(path.name.removesuffix(TESTS) + end) for end in (".yaml", ".yml")]
        of_tests = [each for each in beside if each.is_file() and not options.config]
        config = file.read(of_tests[0] if of_tests else file.short_path(options.config))[1]
    return [(test, config) for test in make_tests(root, config)]
