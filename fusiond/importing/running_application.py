"""The settings of an application, from a child process that runs its code in its own interpreter."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from fusiond.importing import application_settings
from fusiond.importing.draft import Unknown
from fusiond.importing.input_files import ImportOptions, ImportRefused

#: seconds for an application to load
_LONGEST: Final = 120


def settings_of(runner: str, name: str, options: ImportOptions) -> dict[str, Any]:
    """
    What the application says; standard error says first what is run.

    Raises:
        OSError: the interpreter or the directory is not there.
        ImportRefused: the application cannot be loaded.
    """
    python, directory = options.python or sys.executable, os.path.realpath(options.directory)
    if "/" in python:
        python = os.path.abspath(python)  # noqa: PTH100 - a virtual environment's python is a link, which must stay
    where = f"{name} in {directory} with {python}"
    print(f"loads {where}: that runs its code", file=sys.stderr, flush=True)
    # A file and not a pipe: a process that the application starts and leaves behind cannot hold back its end.
    with TemporaryFile("w+") as file:
        text, number = Path(application_settings.__file__).read_text(), file.fileno()
        command = [python, "-c", text, runner, name, str(number)]
        try:
            done = subprocess.run(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=2, pass_fds=(number,), timeout=_LONGEST,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ImportRefused(f"{where} was not loaded after {_LONGEST} s") from error
        file.seek(0)
        answer = file.read()
    if not answer:
        raise ImportRefused(f"{where} was not loaded: the interpreter ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(answer, object_hook=lambda item: Unknown(item["?"]) if "?" in item else item)
    if "error" in found:
        raise ImportRefused(
            f"{where} cannot be loaded ({found['error']}); --directory and --python say where it is and what runs it"
        )
    return found
