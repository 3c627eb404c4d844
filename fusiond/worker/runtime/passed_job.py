"""
What `pass_job` hands to a task: a dict about its job, with a method by which the task says how far it is.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class PassedJob(dict):  # type: ignore[type-arg]
    """A dict; a copy of it, also by pickle, is a plain one."""

    __module__ = "fusiond"
    __slots__ = ("_say",)

    def __init__(self, known: dict[str, Any], say: Callable[[float, str], None]) -> None:
        """`say`: takes the share and the message, and neither waits nor fails."""
        super().__init__(known)
        self._say = say

    def progress(self, share: float, message: str = "") -> None:
        """
        Say how far the job is. It takes a microsecond, so it may be called in each turn of a loop.

        Args:
            share: of the work that is done, from 0 to 1.
            message: a few words; more than 222 bytes are cut.

        Raises:
            ValueError, TypeError: the arguments are something else.
        """
        try:
            number = float(share)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"progress({share!r:.50}): the share is a number from 0 to 1") from None
        if not 0 <= number <= 1:
            raise ValueError(f"progress({share!r:.50}): the share is a number from 0 to 1")
        if not isinstance(message, str):
            raise TypeError(f"progress(…, {message!r:.50}): the message is a text")
        self._say(number, message)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()
