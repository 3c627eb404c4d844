"""`fusiond import`: files and applications of other job runners become a fusion.yaml."""

from __future__ import annotations

from typing import Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import UsageError

_RUNNERS: Final = ("crontab", "sidekiq", "solid-queue", "celery", "rq", "kubernetes")


def register(subparsers: Any) -> None:
    """Add the command."""
    parser = arguments.command(subparsers, "import", _import)
    add = parser.add_argument
    add("runner", choices=_RUNNERS, metavar="|".join(_RUNNERS))
    add(
        "files",
        nargs="+",
        metavar="FILE",
        help="several become one file; - is standard input. celery: the application, such as shop.celery:app; rq: "
        "modules of settings, or files of rq cron",
    )
    add("--python", metavar="PATH", help="celery, rq: the application's interpreter; default: that of fusiond")
    add("--directory", default=".", metavar="DIR", help="celery, rq: where the application is; default: here")
    add(
        "--static",
        action="store_true",
        help="celery, rq: read the names of tasks from files of source, and run nothing",
    )
    add("--timezone", metavar="ZONE", help="of schedules that name none, such as Europe/Berlin; default: UTC")
    add(
        "--environment", default="production", metavar="NAME", help="whose section of a Rails file; default: production"
    )
    add(
        "--system",
        action="store_true",
        default=None,
        help="crontab: each line names a user, as those of /etc/crontab do",
    )


def _import(options: arguments.Options) -> None:
    """
    Print a fusion.yaml that says what files of another job runner say.

    An application of Celery or RQ is loaded, which runs its code; files of others are only read. What could
    not be carried over is there as a comment with the reason.
    """
    from fusiond.importing import finished_file, input_files

    if options.static and options.runner not in finished_file.APPLICATIONS:
        raise UsageError(
            f"--static applies to {' and '.join(finished_file.APPLICATIONS)}; other files are always only read"
        )
    chosen = input_files.ImportOptions(
        options.timezone, options.environment, options.system, options.python, options.directory, options.static
    )
    try:
        print(finished_file.imported(options.runner, options.files, chosen), end="")
    except OSError as error:
        raise UsageError(
            f"{error.filename or 'a file'} cannot be read: {(error.strerror or str(error)).lower()}"
        ) from error
