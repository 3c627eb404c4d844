"""Failed jobs by what went wrong: the verbs that group them, for the dashboard and `fusiond top`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from fusiond.broker.call import Call, decoded, number, scripted
from fusiond.broker.keys import VerbGroup

#: failed jobs that are read at once
PAGE: Final = 250
#: bytes of an error, and of its message, that are compared
_COMPARED, _MESSAGE = 1000, 120
#: a text of JSON that may be cut behind it
_TEXT = r'"{}": ?("(?:[^"\\]|\\.)*"?)'


class FailureGroup(NamedTuple):
    """Failed jobs of one queue whose task and error are the same, but for numbers in the message."""

    queue: str
    #: as `failures.lua` makes it
    key: bytes
    task: str
    jobs: int
    #: epoch ms: when the first and the last of them ended
    first: int
    last: int
    #: of the last
    id: str
    code: str
    type: str
    message: str
    #: `<generation>,<release>` that their last attempts ran with → jobs
    releases: dict[str, int]

    @property
    def digest(self) -> str:
        """Names the group in an address, whatever its queue."""
        return _digest(self.key)


class FailureVerbs(VerbGroup):
    """Verbs that look at failed jobs and change nothing."""

    def failures(self, queue: str, *, start: int = 0, count: int = PAGE) -> Call[tuple[int, list[FailureGroup]]]:
        """How many jobs a page of the failed ones has, those that are kept longest first, and their groups."""

        def parse(reply: Any) -> tuple[int, list[FailureGroup]]:
            return number(reply[0]), [_group(queue, each) for each in reply[1:]]

        return scripted("failures", self.keys.root(queue), (start, count), parse)


def alike(groups: Iterable[FailureGroup]) -> list[list[FailureGroup]]:
    """Those of one task and error together, whatever their queues; what failed last first."""
    merged: dict[str, list[FailureGroup]] = {}
    for group in groups:
        merged.setdefault(group.digest, []).append(group)
    found = [sorted(each, key=lambda group: group.last, reverse=True) for each in merged.values()]
    return sorted(found, key=lambda each: each[0].last, reverse=True)


def group_of(task: str, error: bytes) -> str:
    """The digest of the group to which a failed job belongs, by its whole error; as `key_of` in `failures.lua`."""
    said = [re.search(rb'"%s": ?"([^"\\]*)' % name.encode(), error[:_COMPARED]) for name in _PARTS]
    code, kind, message = (found[1] if found else b"" for found in said)
    if code == b"EXPIRED" and kind:
        code = b"EXCEPTION"
        message = re.sub(rb";? ?not retried: .*\Z|; its? [^;]* when it expired\Z", b"", message, flags=re.DOTALL)
    return _digest(b"\n".join([task.encode(), code, kind, re.sub(rb"[0-9]+", b"#", message[:_MESSAGE])]))


def _digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:16]


def _group(queue: str, said: list[Any]) -> FailureGroup:
    key, task, count, first, last, id_, error, releases = said
    code, kind, text = (_said(decoded(error), name) for name in _PARTS)
    ran_with = dict(zip(map(decoded, releases[::2]), map(number, releases[1::2]), strict=True))
    numbers = number(count), number(first), number(last)
    return FailureGroup(queue, key, decoded(task), *numbers, decoded(id_), code, kind, text, ran_with)


_PARTS = ("code", "type", "message")


def _said(error: str, name: str) -> str:
    """The text of this name in a JSON object that may be cut."""
    found = re.search(_TEXT.format(name), error)
    if found is None:
        return ""
    text = found[1] if found[1].endswith('"') and len(found[1]) > 1 else f'{found[1]}"'
    try:
        return str(json.loads(text))
    except ValueError:
        return text.strip('"')
