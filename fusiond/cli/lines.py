"""
Jobs out of JSON lines: `fusiond enqueue -`.

1. read    a window of lines; a line that cannot be meant is kept with the reason
2. group   those that differ in nothing but their arguments
3. send    each group in one round trip, of which all jobs are stored or none
4. again   one by one, where a group was refused, so that each line has its own answer
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fusiond.errors import BadArguments, EnqueueError
from fusiond.nesting import TOO_DEEP, too_deep
from fusiond.producer import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fusiond.cli.source import Desk
    from fusiond.enqueue_options import Options
    from fusiond.producer import JobRef, Producer

_NUMBER: Final = (int, float)
#: what a line may have beside task, args and kwargs, and of which type; as in schemas/job.schema.json
_OPTIONS: Final[dict[str, tuple[type, ...]]] = {
    "id": (str,),
    "queue": (str,),
    "priority": (str, int),
    "delay": (str, *_NUMBER),
    "at": (str, *_NUMBER),
    "expires": (str, *_NUMBER),
    "timeout": (str, *_NUMBER),
    "key": (str,),
    "log_tag": (str,),
    "meta": (dict,),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One job, read."""

    #: from 1
    number: int
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: Options

    @property
    def kin(self) -> object:
        """The same for lines that may share a round trip; one whose id is its own goes alone."""
        alone = self.options.id is not None or self.options.key is not None
        return self.number if alone else (self.task, repr(self.options))


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a line: its job's place, or why there is none."""

    number: int
    place: JobRef | None = None
    refusal: str = ""


def enqueue(desk: Desk, producer: Producer, lines: Iterable[bytes], common: Options) -> Iterator[Answer]:
    """
    An answer for each line that is not blank, in an order of its own.

    `common` are the options of a line that does not say otherwise.
    """
    numbered = enumerate(lines, 1)
    while window := list(islice(numbered, CHUNK)):
        groups: dict[object, list[Line]] = {}
        for number, text in window:
            try:
                if text.strip():
                    line = read(number, text, common)
                    groups.setdefault(line.kin, []).append(line)
            except EnqueueError as error:
                yield Answer(number, refusal=str(error))
        for group in groups.values():
            yield from _together(desk, producer, group) if len(group) > 1 else _alone(desk, producer, group)


def read(number: int, text: bytes, common: Options) -> Line:
    """The job that a line is. Raises BadArguments."""
    if too_deep(text):
        raise BadArguments(f"the line cannot be read: {TOO_DEEP}")
    try:
        said = json.loads(text)
    except ValueError as error:
        raise BadArguments(f"not JSON: {error}") from None
    if not isinstance(said, dict) or not isinstance(said.get("task"), str):
        raise BadArguments('no job; a line is an object such as {"task": "report", "kwargs": {"region": "eu"}}')
    args, kwargs = said.pop("args", []), said.pop("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise BadArguments("args is an array and kwargs an object")
    return Line(number, said.pop("task"), args, kwargs, _options(said, common))


def _options(said: dict[str, Any], common: Options) -> Options:
    for name, value in said.items():
        if name not in _OPTIONS:
            raise BadArguments(f"unknown key {name!r}; known are task, args, kwargs, {', '.join(_OPTIONS)}")
        if isinstance(value, bool) or not isinstance(value, _OPTIONS[name]):
            raise BadArguments(f"{name}: {json.dumps(value)} is of the wrong type")
    # When a job may start is one thing said in two ways: a line's own way wins.
    apart = {"delay": None, "at": None} if {"delay", "at"} & said.keys() else {}
    return replace(common, **{**apart, **said})


def _together(desk: Desk, producer: Producer, group: list[Line]) -> Iterator[Answer]:
    jobs = [(line.task, line.args, line.kwargs) for line in group]
    try:
        places = desk.run(producer.enqueue_many(group[0].options, jobs))
    except EnqueueError:
        yield from _alone(desk, producer, group)
        return
    for line, place in zip(group, places, strict=True):
        yield Answer(line.number, place)


def _alone(desk: Desk, producer: Producer, group: list[Line]) -> Iterator[Answer]:
    for line in group:
        try:
            place = desk.run(producer.enqueue(line.options, line.task, line.args, line.kwargs))
        except EnqueueError as error:
            yield Answer(line.number, refusal=str(error))
        else:
            yield Answer(line.number, place)
