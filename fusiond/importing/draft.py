"""
What was found in the files of another runner: the entries of a fusion.yaml, and what could not be carried over.

Several files, and several runners' words, become one draft. An entry with the same name and the same values is stored
once; one with other values gets a number behind its name.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fusiond.importing.input_files import ImportRefused

#: sections with an entry for each name, in the order of the file
SECTIONS: Final = ("retry_policies", "queues", "tasks", "cron", "workers")
_LONGEST_NAME: Final = 90
#: entries of a section; a file of ours has room for about as many
_MOST: Final = 5000
#: sentences at the head of the file
_MOST_LEFT_OUT: Final = 1000
#: the group that serves the queues that no other group serves
MAIN: Final = "main"
DEFAULT_QUEUE: Final = "default"


@dataclass(frozen=True, slots=True)
class Reference:
    """A number that comes from an environment variable: `${WORKERS:-5}`."""

    variable: str
    default: str
    #: behind it, such as `s`
    unit: str = ""

    def __str__(self) -> str:
        return f"${{{self.variable}:-{self.default}}}{self.unit}"

    def in_unit(self, unit: str) -> "Reference":
        """The same with a unit behind it."""
        return Reference(self.variable, self.default, unit)


@dataclass(frozen=True, slots=True)
class Unknown:
    """What only a run of the program tells, or what is no JSON."""

    source: str

    def __str__(self) -> str:
        return self.source


@dataclass(slots=True)
class DraftEntry:
    """One entry of a section."""

    values: dict[str, Any]
    #: sentences above it
    comments: list[str] = field(default_factory=list)
    #: why the loader refuses it; empty: it does not
    refused: str = ""

    def say(self, *comments: str) -> None:
        """Add comments, each once."""
        self.comments += [comment for comment in dict.fromkeys(comments) if comment not in self.comments]


class Draft:
    """The file so far."""

    def __init__(self) -> None:
        self.sections: dict[str, dict[str, DraftEntry]] = {section: {} for section in SECTIONS}
        self.broker = DraftEntry({})
        #: of `defaults`: tasks and workers
        self.of_tasks, self.of_workers = DraftEntry({}), DraftEntry({})
        #: what works in another way here; sentences for the head of the file
        self.remarks: list[str] = []
        #: what was not carried over, with the reason; a dict, since a hostile file has many thousands
        self.left_out: dict[str, None] = {}
        #: how many more there were
        self.not_said = 0
        #: section, name that was asked for and values → the name that it got
        self._names: dict[tuple[str, str, str], str] = {}
        #: section and name that was asked for → how many entries have it
        self._numbers: Counter[tuple[str, str]] = Counter()

    def remark(self, sentence: str) -> None:
        """Say at the head of the file what works in another way."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    def leave_out(self, what: str, reason: str) -> None:
        """Something of the input has no counterpart, or cannot be known."""
        if len(self.left_out) < _MOST_LEFT_OUT:
            self.left_out[f"{what}: {reason}"] = None
        else:
            self.not_said += 1

    def put(self, section: str, name: str, values: dict[str, Any], *comments: str) -> str:
        """Add an entry; returns the name that it got."""
        entries, wanted = self.sections[section], name_from(name)
        key = section, wanted, repr(values)
        while (found := self._names.get(key)) is None:
            self._numbers[section, wanted] = number = self._numbers[section, wanted] + 1
            candidate = wanted if number == 1 else f"{wanted}_{number}"
            if candidate not in entries or entries[candidate].values == values:
                self._names[key] = candidate
        if len(entries) >= _MOST:
            raise ImportRefused(f"there are more than {_MOST:,} entries for {section}; import fewer files at a time")
        entries.setdefault(found, DraftEntry(values)).say(*comments)
        return found

    def queue(self, name: str) -> str:
        """Declare a queue; returns its name here."""
        found = name_from(name)
        if found != DEFAULT_QUEUE:
            self.sections["queues"].setdefault(found, DraftEntry({}))
        return found

    def of_queue(self, name: str, **values: Any) -> None:
        """Say more of a queue, `default` included."""
        self.sections["queues"].setdefault(self.queue(name), DraftEntry({})).values.update(values)

    def command(self, name: str, queue: str, words: Sequence[str], *comments: str, **values: Any) -> str:
        """Add a task that runs a program with these words; returns its name."""
        settings = {"command": [word.replace("$(", "$$(") for word in words], **values}
        return self.put("tasks", name, settings if queue == DEFAULT_QUEUE else {**settings, "queue": queue}, *comments)

    def group(self, name: str, values: dict[str, Any], *comments: str) -> str:
        """Add a worker group; returns its name."""
        return self.put("workers", name, values, *comments)

    def finish(self) -> None:
        """Declare each queue that is used, and have each one served."""
        tasks, groups = self.sections["tasks"], self.sections["workers"]
        used = {task.values.get("queue", self.of_tasks.values.get("queue", DEFAULT_QUEUE)) for task in tasks.values()}
        for name in sorted(used):
            self.queue(name)
        lists = [group.values.get("queues", "*") for group in groups.values()]
        served = {queue for queues in lists if queues != "*" for queue in queues}
        missing = sorted((used | self.sections["queues"].keys()) - served)
        if "*" in lists or not missing:
            return
        if MAIN in groups and isinstance(groups[MAIN].values["queues"], list):
            groups[MAIN].values["queues"] += missing
        else:
            self.group(MAIN, {"queues": missing}, "serves the queues that no other group does")


def name_from(text: str) -> str:
    """A name of the file that is as near to the text as its letters allow."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", text.replace("::", "."))[:_LONGEST_NAME].strip("_.-")
    return name or "unnamed"


def has_unknown(value: Any) -> bool:
    """Whether a part of it is not known here."""
    if isinstance(value, dict | list):
        return any(map(has_unknown, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Unknown | Reference)
