"""
`fusiond enqueue -`: a job for each line of JSON.

1. read     a window of lines; a line that is not a job is refused with the reason
2. group    lines that differ in nothing but their arguments
3. send     each group
4. repeat   one by one what was not stored if a group was refused, so that each line has its own outcome
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from fusiond.cli.find.broker import Session
from fusiond.enqueue_options import Options
from fusiond.errors import BadArguments, EnqueueError
from fusiond.json_depth import TOO_DEEP, too_deep
from fusiond.producer.new_jobs import JobRef
from fusiond.producer.plans import Producer

#: number of a line, and where its job is or why there is none
LineResult = tuple[int, JobRef | str]

#: lines that are read before they are sent
_WINDOW: Final = 500
#: keys of a line besides task, args and kwargs, as in schemas/job.schema.json
_OPTIONS: Final = tuple(field.name for field in fields(Options))


class _Line(NamedTuple):
    """A line that was read; `number` counts from 1."""

    number: int
    #: task, args, kwargs
    call: tuple[str, list[Any], dict[str, Any]]
    options: Options


def enqueue(session: Session, producer: Producer, lines: Iterable[bytes], common: Options) -> Iterator[LineResult]:
    """
    The outcome of each line that is not blank, in any order.

    `common`: options for lines that do not have them.
    """
    numbered = enumerate(lines, 1)
    while window := list(islice(numbered, _WINDOW)):
        groups: dict[object, list[_Line]] = {}
        for number, text in window:
            try:
                if text.strip():
                    line = _read(number, text, common)
                    groups.setdefault(_group(line), []).append(line)
            except EnqueueError as error:
                yield number, str(error)
        for group in groups.values():
            yield from _together(session, producer, group) if len(group) > 1 else _one_by_one(session, producer, group)


def _group(line: _Line) -> object:
    """Equal for lines that may share a round trip; a job with an id of its own may not."""
    alone = line.options.id is not None or line.options.key is not None
    return line.number if alone else (line.call[0], repr(line.options))


def _read(number: int, text: bytes, common: Options) -> _Line:
    """The job of a line. Raises BadArguments."""
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
    return _Line(number, (said.pop("task"), args, kwargs), _options(said, common))


def _options(said: dict[str, Any], common: Options) -> Options:
    for name, value in said.items():
        if name not in _OPTIONS:
            raise BadArguments(f"unknown key {name!r}; known are task, args, kwargs, {', '.join(_OPTIONS)}")
        if value is None or isinstance(value, bool):  # the producer would take them for no value, and for a number
            raise BadArguments(f"{name}: {json.dumps(value)} is of the wrong type")
    # `delay` and `at` exclude each other, so either one of a line replaces both of the command.
    if {"delay", "at"} & said.keys():
        common = replace(common, delay=None, at=None)
    return replace(common, **said)


def _together(session: Session, producer: Producer, group: list[_Line]) -> Iterator[LineResult]:
    bulk = producer.enqueue_many(group[0].options, [line.call for line in group])
    with contextlib.suppress(EnqueueError):  # below, each line that was not stored gets its own outcome
        session.run(bulk.plan())
    stored = bulk.stored()
    yield from ((group[number].number, ref) for number, ref in stored.items())
    yield from _one_by_one(session, producer, [line for n, line in enumerate(group) if n not in stored])


def _one_by_one(session: Session, producer: Producer, group: list[_Line]) -> Iterator[LineResult]:
    for line in group:
        try:
            yield line.number, session.run(producer.enqueue(line.options, *line.call))
        except EnqueueError as error:
            yield line.number, str(error)
