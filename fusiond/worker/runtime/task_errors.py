"""
What says that a job has failed, besides the exceptions of its own code.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

from . import wire


class TaskError(Exception):
    """A path that gives no callable; `code` is TASK_NOT_FOUND or IMPORT_ERROR."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)

    @property
    def is_of_module(self) -> bool:
        """Whether the path is right, and the module at it has failed."""
        return self.__cause__ is not None


class EnqueuedError(TaskError):
    """A path whose module enqueues a job where it is imported."""

    @property
    def is_of_module(self) -> bool:
        """Yes: the module is there."""
        return True


class ProgramFailed(Exception):
    """The program of a command has ended with a status that is no success; negative: the signal that killed it."""

    __module__ = "fusiond"

    def __init__(self, program: str, status: int, last_line: str, follows: int) -> None:
        """
        `last_line`: of its standard error; `follows`: wire.RETRY or wire.SNOOZE if the file says so, else 0.

        One that a signal has killed is worth another attempt.
        """
        self.status, self.follows = status, follows or (wire.RETRY if status < 0 else 0)
        how = f"was killed by signal {-status}" if status < 0 else f"exited with status {status}"
        super().__init__(f"{program} {how}{': ' if last_line else ''}{last_line}")


class SoftTimeout(BaseException):
    """The job's soft timeout is over: the task should clean up and end before it is killed at the hard timeout."""

    __module__ = "fusiond"  # a traceback must not show the private package
