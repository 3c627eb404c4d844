"""
Which held jobs this dispatcher can run: those whose task its file has, and whose function loads here; of a task that
needs pools so many as there is room for.

Redis says, queue by queue, of which tasks jobs are held, and each claim of the queue says which of these are here.
Where every host has the same file there are none, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable

#: jobs, if nothing limits them
UNLIMITED = 1 << 30


class HeldTasks:
    """What one dispatcher knows of them."""

    def __init__(self, most_to_begin: Callable[[str], int]) -> None:
        """`most_to_begin`: how many jobs of a task can begin here, up to UNLIMITED."""
        self._most_to_begin = most_to_begin
        #: queue → "<version> <task> …", as Redis has said it
        self._said: dict[str, str] = {}
        #: the same, of the tasks that are here
        self._words: dict[str, str] = {}

    def words(self, queue: str) -> str:
        """What a claim says of the queue: the version, and those of the tasks that are here."""
        words = self._words.get(queue)
        if words is None:
            version, *tasks = self._said.get(queue, "").split() or [""]
            begin = ((task, self._most_to_begin(task)) for task in tasks)
            here = [task if most >= UNLIMITED else f"{task}={most}" for task, most in begin if most > 0]
            words = self._words[queue] = " ".join([version, *here])
        return words

    def listed(self) -> set[str]:
        """The tasks of which some jobs may be held, as Redis has said it."""
        return {task for said in self._said.values() for task in said.split()[1:]}

    def queues_of(self, task: str) -> list[str]:
        """The queues that list the task."""
        return [queue for queue, said in self._said.items() if task in said.split()[1:]]

    def note(self, queue: str, said: str) -> None:
        """A claim's answer."""
        self._said[queue] = said
        self._words.pop(queue, None)

    def look_again(self) -> None:
        """Other tasks may be here now."""
        self._words.clear()
