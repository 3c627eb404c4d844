"""
The process that reads and validates the file: the supervisor's loop never waits for YAML, and never loads it.

For a start and for a reload the helper writes the candidate snapshot; for a plan it says what a reload would do. What
it is asked, and what it prints, is described in `fusiond/config/candidate.py`; reading.py waits for it.

At its start the daemon loads this module before nearly all others: it loads them while the helper works.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import fusiond
from fusiond.errors import FusionError
from fusiond.program import PRIVATE


class Helper:
    """One helper; a context, at whose end it is killed if it still runs."""

    def __init__(self, source: Path, request: Mapping[str, Any], *, development: bool) -> None:
        """
        Start it.

        Args:
            source: the YAML file.
            request: what it is asked, beside these.
            development: whether to take the file as `fusiond dev` does.

        Raises:
            OSError: it cannot be started.
        """
        self.source, self.development = source, development
        #: the candidate snapshot that it writes; None: it writes none
        self.out = Path(request["out"]) if "out" in request else None
        asked = {"version": fusiond.__version__, "file": str(source), "development": development, **request}
        with contextlib.ExitStack() as made:
            # Files and not pipes: nobody empties a pipe while the helper runs.
            self._output, self._errors = (made.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "fusiond.config.candidate", json.dumps(asked)],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._errors,
                env={name: value for name, value in os.environ.items() if name not in PRIVATE},
                start_new_session=True,
            )
            self._made = made.pop_all()

    @classmethod
    def at_start(cls, source: Path, *, development: bool) -> Self:
        """One that writes the first snapshot of a daemon, into a directory that goes with it. Raises FusionError."""
        with contextlib.ExitStack() as made:
            try:
                directory = made.enter_context(tempfile.TemporaryDirectory(prefix="fusiond-"))
                request = {"out": str(Path(directory) / "candidate.json"), "generation": 1}
                new = cls(source, request, development=development)
            except OSError as error:
                raise FusionError(str(error)) from None
            new._made.push(made.pop_all())
        return new

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._made.close()

    @property
    def has_ended(self) -> bool:
        """Whether it has ended; its end also wakes the loop, by SIGCHLD."""
        return self._process.poll() is not None

    @property
    def status(self) -> int:
        """Its exit status, once it has ended; 0 if supervisor has reaped it, which then has logged the status."""
        return self._process.returncode or 0

    def printed(self) -> tuple[bytes, bytes]:
        """What it has printed to its standard output, and to its standard error."""
        self._output.seek(0)
        self._errors.seek(0)
        return self._output.read(), self._errors.read()
