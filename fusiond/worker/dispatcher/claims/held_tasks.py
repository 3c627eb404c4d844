"""
Which held jobs this dispatcher can run: those whose task its file has, and whose function loads here.

Redis says, queue by queue, of which tasks jobs are held, and each claim of the queue says which of these are here.
Where every host has the same file there are none, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable


class HeldTasks:
    """What one dispatcher knows of them."""

    def __init__(self, runs: Callable[[str], bool]) -> None:
        """`runs`: whether jobs of a task can run here."""
        self._runs = runs
        #: queue → "<version> <task> …", as Redis has said it
        self._said: dict[str, str] = {}
        #: the same, of the tasks that are here
        self._words: dict[str, str] = {}

    def words(self, queue: str) -> str:
        """What a claim says of the queue: the version, and those of the tasks that are here."""
        words = self._words.get(queue)
        if words is None:
            version, *tasks = self._said.get(queue, "").split() or [""]
            words = self._words[queue] = " ".join([version, *filter(self._runs, tasks)])
        return words

    def note(self, queue: str, said: str) -> None:
        """A claim's answer."""
        self._said[queue] = said
        self._words.pop(queue, None)

    def look_again(self) -> None:
        """Other tasks may be here now."""
        self._words.clear()
