"""
All jobs that fit a filter, and all groups of failures, as files: CSV for spreadsheets, or JSON.

Jobs are read and sent page by page, however many there are. If Redis fails meanwhile, the connection breaks: a client
sees that the last part of the body is missing, and no short file looks whole.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import sys
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import StreamingResponse

from fusiond.inspecting.failure_groups import FailureRow
from fusiond.inspecting.search import fitting
from fusiond.job import JobStatus
from fusiond.web.endpoint import WebCall, reads
from fusiond.web.filters import moment
from fusiond.web.inputs import Input
from fusiond.web.pages.failure_pages import OWNER, QUEUE, failures
from fusiond.web.pages.job_pages import JobRow, row_of
from fusiond.web.pages.job_search import FILTERS, filter_of, queues_of
from fusiond.web.responses import plain
from fusiond.written_text import json_bytes

#: how a spreadsheet recognizes a formula
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_FORM = Input("form", "the kind of file", "path", words=("csv", "json"), required=True)


async def _jobs(call: WebCall) -> StreamingResponse:
    backend = call.backend
    queues, secret, known = await queues_of(backend, call.said), await backend.secret(), await backend.catalogue()

    async def pages() -> AsyncIterator[list[JobRow]]:
        for queue in queues:
            for status in map(JobStatus, call["state"] or JobStatus):  # as jobs move: rather twice there than missing
                start, is_first = "", True
                while start or is_first:
                    page = fitting(
                        backend.verbs, queue, status, filter_of(call.said, known),
                        secret=secret, tags=known.log_tags, start=start,
                    )  # fmt: skip
                    jobs, start, _ = await backend.run(page)
                    is_first = False
                    yield [row_of(job, cut=None) for job in jobs]

    return _sent(call["form"], "jobs", JobRow, pages())


async def _failures(call: WebCall) -> StreamingResponse:
    found = await failures(call.backend, call["queue"] or "", sys.maxsize, call["owner"] or "", float("inf"))

    async def pages() -> AsyncIterator[list[FailureRow]]:
        yield found.groups

    return _sent(call["form"], "failures", FailureRow, pages())


def _sent(form: str, name: str, kind: Any, pages: AsyncIterator[list[Any]]) -> StreamingResponse:
    names = [each.name for each in dataclasses.fields(kind)]
    body, media = (_as_csv(names, pages), "text/csv") if form == "csv" else (_as_json(pages), "application/json")
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
    return StreamingResponse(body, headers=headers, media_type=media)


async def _as_csv(names: list[str], pages: AsyncIterator[list[Any]]) -> AsyncIterator[bytes]:
    """With a line of names; times in UTC."""
    rows = [names]
    async for page in pages:
        rows += [[_cell(name, getattr(each, name)) for name in names] for each in page]
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        yield text.getvalue().encode(errors="backslashreplace")
        rows = []


def _cell(name: str, value: Any) -> str:
    """What a spreadsheet would take for a formula has an apostrophe before it."""
    text = moment(value) if name in ("at", "first", "last") else str(value)
    text = "; ".join(map(str, value)) if isinstance(value, list) else text
    return f"'{text}" if text.startswith(_FORMULA) else text


async def _as_json(pages: AsyncIterator[list[Any]]) -> AsyncIterator[bytes]:
    """An array with an object in each line."""
    before = b"[\n"
    async for page in pages:
        if page:
            yield before + b",\n".join(json_bytes(each, plain) for each in page)
            before = b",\n"
    yield b"\n]\n" if before == b",\n" else b"[]\n"


ENDPOINTS = (
    reads("/jobs.{form}", _jobs, "All jobs that fit a filter, as a file", list[JobRow], "", (_FORM, *FILTERS)),
    reads(
        "/failures.{form}", _failures, "All groups of failures, as a file", list[FailureRow], "", (_FORM, QUEUE, OWNER)
    ),
)
