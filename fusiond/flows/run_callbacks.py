"""The job that is called at the end of a run, by `on_success` or `on_failure` of its flow. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fusiond.broker.records import NewJob
from fusiond.flows.runs import Run, job_id

#: bytes of a value that a callback is given
_LARGEST_VALUE: Final = 65536


def callback_job(
    queue: str, run: Run, said: Mapping[str, Any], result: bytes, reasons: Mapping[str, str]
) -> tuple[str, NewJob]:
    """The job that is called at the end of a run, and its queue; what is above 64 kB is null."""
    error = {"code": "FLOW_FAILED", "type": "", "message": failure_of(reasons), "traceback": ""} if reasons else None
    raw = {"inputs": run.record.inputs, "result": result or b"null"}
    large = {name for name, value in raw.items() if len(value) > _LARGEST_VALUE}
    steps = {name: step.status for name, step in run.state.steps.items()}
    event: dict[str, Any] = {
        "id": run.record.id,
        "queue": queue,
        "flow": run.shape.flow,
        "status": run.state.status,
        "steps": steps,
    }
    event |= {"error": error, "created_at": run.record.created_at / 1000, "truncated": bool(large)}
    parts = [b'"%b":%b' % (name.encode(), b"null" if name in large else value) for name, value in raw.items()]
    body = b'"event":{%b,%b}' % (json.dumps(event, ensure_ascii=False)[1:-1].encode(), b",".join(parts))
    if "url" in said:
        body = b'"url":%b,"body":{%b},"allow_private":true' % (json.dumps(said["url"]).encode(), body)
    id_ = job_id(f"cb-{run.record.id}", run.state.status, None, run.state.round)
    expires, unique = said.get("expires"), said.get("unique")
    job = NewJob(id_, said["task"], b"[[],{%b}]" % body, said["priority"], expires_ms=expires, unique=unique)
    return said["queue"], job


def failure_of(reasons: Mapping[str, str]) -> str:
    """Why a run failed, for people."""
    return "; ".join(f"step {name}: {reason}" for name, reason in reasons.items())
