"""
Commands: programs that a task runs in place of a function.

`$(name)` in a word of a command is a placeholder, which an argument of the call fills; `$$(` is a literal `$(`. This is
the form of Kubernetes.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from fusiond.config.kinds import AS_WRITTEN, WORD, Key, Kind, Text, between

#: one word of a command; a number is taken as it is written
CommandWord = Annotated[str, AS_WRITTEN]
_A_LIST: Final = "write a list of words, such as [pg_dump, shop]; for a line of a shell, [sh, -c, '…']"
COMMAND: Final = Kind({"type": ["array"], "minItems": 1, "maxItems": 1000, "errorMessage": _A_LIST})
Status = Annotated[int, between(0, 255)]
PLACEHOLDER: Final = re.compile(rf"(?<!\$)\$\(({WORD})\)")

#: what retry policies may call the failure of a program, which is no exception of the application
FAILURES: Final = ("ProgramFailed", "fusiond.ProgramFailed")
#: keys of a task that mean nothing for a function; for a command
OF_COMMANDS: Final = ("parameters", "exit_status", "directory", "stdin", "progress")
OF_FUNCTIONS: Final = ("pass_job",)


@dataclass(frozen=True, slots=True)
class Parameter:
    """The values that a placeholder of a command accepts."""

    #: A regular expression that the whole value must match; its classes, such as \d and \w, mean ASCII characters.
    pattern: Annotated[Text | None, Key("Pattern", "[0-9]{4}-[0-9]{2}-[0-9]{2}", either=True)] = None
    #: The values themselves.
    enum: Annotated[
        tuple[CommandWord, ...], Kind({"type": ["array"], "minItems": 1}), Key("Values", ["shop", "crm"], either=True)
    ] = ()
    #: Whether a value may begin with `-`, and so be an option of the program.
    leading_dash: Annotated[bool, Key("Leading dash", True)] = False


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """What the exit statuses of a command's program mean; each other one is a failure."""

    #: The job has finished.
    success: Annotated[tuple[Status, ...], Key("Success", [0, 3])] = (0,)
    #: The attempt has failed, and the task's retry policy says when the next one begins.
    retry: Annotated[tuple[Status, ...], Key("Retry", [75])] = ()
    #: "Not yet": the job comes back after the `delay` of its retry policy, and no attempt is counted.
    snooze: Annotated[tuple[Status, ...], Key("Snooze", [99])] = ()


def parts_of(word: str) -> list[str]:
    """A word as literal text, name of a placeholder, literal text, name, …, literal text: names are [1::2]."""
    parts = PLACEHOLDER.split(word)
    return [part if at % 2 else part.replace("$$(", "$(") for at, part in enumerate(parts)]
