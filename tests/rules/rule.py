"""What a rule is: a code, a sentence, and the examples that the documentation shows and the tests run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fusiond.config.problems import Severity

#: what a rule needs before it can say anything: a look at this machine, `--imports`, or a daemon run by root or not
Needs = Literal["", "imports", "root", "person"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of problem."""

    #: stable: scripts and suppressions may rely on it
    code: str
    severity: Severity
    #: what is wrong, after "the file has …"; no full stop
    sentence: str
    #: a file that breaks this rule and no other; «…» is what the caret underlines. A large one is made when asked for
    bad: str | Callable[[], str]
    #: the same, mended
    good: str
    #: an error where the machine is about to run the file, else the severity above
    at_run: bool = False
    #: at other places, the other severity: what the page says of it
    unless: str = ""
    #: further files of the example, by name
    files: Mapping[str, str] = field(default_factory=dict)
    #: their modes, where these matter
    modes: Mapping[str, int] = field(default_factory=dict)
    #: the example is a whole file; else `version: 1`, a task `a` and a group `m` are added where it has none
    whole: bool = False
    encoding: str = "utf-8"
    #: what the page shows in place of a bad example that cannot be printed
    shown: str = ""
    needs: Needs = ""
    #: a module that is not found while the bad example is checked
    without: str = ""
