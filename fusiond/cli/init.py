"""`fusiond init`: the files that a way of running needs."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fusiond.cli import arguments
from fusiond.cli.exits import UsageError
from fusiond.cli.terminal.confirm import confirm

if TYPE_CHECKING:
    from fusiond.starters import Starter

#: options that choose a starter → their help
_WAYS: Final = {
    "systemd": "the units and /etc/fusion.yaml, below DIRECTORY; / puts them in place",
    "docker": "an image, and a compose file with Redis",
    "kubernetes": "an image, and manifests for Kustomize",
}


def register(subparsers: Any) -> None:
    """Add the command."""
    init = arguments.command(subparsers, "init", _init)
    init.add_argument("directory", nargs="?", type=_directory, default=Path(), metavar="DIRECTORY", help="default: .")
    ways = init.add_mutually_exclusive_group()
    for way, does in _WAYS.items():
        ways.add_argument(f"--{way}", action="store_const", const=way, dest="way", default="first", help=does)
    arguments.add_yes(init)


def _directory(text: str) -> Path:
    if text.endswith((".yaml", ".yml")):
        raise ArgumentTypeError(f"{text!r} is the name of a file; name the directory for it")
    return Path(text)


def _init(options: arguments.Options) -> None:
    """
    Write a first fusion.yaml, its tests and its tasks, or what systemd, Docker or Kubernetes needs.

    Asks before it writes over a file, and prints what it wrote and what to do next.
    """
    from fusiond.starters import STARTERS

    starter: Starter = STARTERS[options.way]
    texts = {options.directory / path: text for path, text in starter.texts().items()}
    try:
        if changed := [str(at) for at, text in texts.items() if at.exists() and at.read_bytes() != text.encode()]:
            confirm(f"write over {', '.join(changed)}", options)
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{options.directory}: not all is written: {error}") from error
    print(f"\nWhat to do next, in {options.directory.absolute()}:\n\n{starter.steps()}", end="")
