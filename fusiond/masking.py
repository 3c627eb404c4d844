"""
What is not shown of a job: the values of the arguments that `secret` of its task names.

| where a value can be                                              | what is masked                             |
|-------------------------------------------------------------------|--------------------------------------------|
| arguments of a job, a callback's event, a pushed or a broken body | the argument, by its place                 |
| the URL of a callback's job, or of a sink                         | what is behind its host                    |
| the names of a limit and of a tenant                              | the argument, by its name                  |
| the name of a lock                                                | the value; all values if no job tells them |
| inputs of a run of a flow                                         | those that a step passes as the argument   |
| inputs in the event of a flow's callback                          | all, if any task of the file has a secret  |
| every other text of the job or of its event                       | the value, if it has 6 characters or more  |

A search sees what is shown. What the task itself prints, raises or returns in another form cannot be masked. Pure.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlsplit

from fusiond.callbacks import WEBHOOK_TASK
from fusiond.job import JobRecord

#: in place of a value
HIDDEN: Final = "•••"
#: characters; a shorter value is masked by its place only: a "1" must not blank each 1
_SHORTEST: Final = 6
#: fields of a record that are texts, or JSON
_TEXTS: Final = (
    "error", "result", "meta", "printed", "description", "key", "limit", "lock", "tenant", "last_outcome", "log_tag",
    "broken",
)  # fmt: skip

#: task → its secret arguments, `kwargs.NAME`, `args.N`, or `args.*` for all that are passed by position, `kwargs.*`
Secret = Mapping[str, Collection[str]]


class _Everything(Secret):
    """All arguments of all tasks."""

    def __getitem__(self, task: str) -> Collection[str]:
        return ("args.*", "kwargs.*")

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


ALL: Final = _Everything()


def masked_job(record: JobRecord, secret: Secret) -> JobRecord:
    """The record as it may be shown."""
    values: set[Any] = set()
    args = _masked_raw(record.args, record.task, secret, values)
    names = secret.get(record.task, ())
    if not values and not names:
        return record
    texts = {name: _without(getattr(record, name), values) for name in _TEXTS}
    texts |= {name: _named(texts[name], names) for name in ("limit", "tenant")}
    texts["lock"] = _lock(texts["lock"], {_as_in_lock(value) for value in values}) if names else texts["lock"]
    history = tuple(dataclasses.replace(past, error=_without(past.error, values)) for past in record.history)
    said = record.progress
    progress = said and dataclasses.replace(said, message=_without(said.message, values))
    return dataclasses.replace(record, args=args, history=history, progress=progress, **texts)


def masked_event(document: Mapping[str, Any], secret: Secret) -> dict[str, Any]:
    """What `Event.document` gives, as it may be shown or sent."""
    found, values = dict(document), set[Any]()
    if "args" in found:
        raw = found["args"].encode()
        found["args"] = _masked_raw(raw, found.get("task", ""), secret, values).decode(errors="replace")
    if found["event"] == "unlocked" and "about" in found:
        found["about"] = masked_lock(found["about"], secret)
    return json.loads(_without(json.dumps(found), values)) if values else found


def masked_lock(lock: str, secret: Secret) -> str:
    """The name of a lock of which no job is at hand."""
    return f"{lock.partition(':')[0]}:{HIDDEN}" if secret.get(lock.partition(":")[0]) else lock


def masked_body(raw: bytes, secret: Secret) -> bytes:
    """What was pushed and is broken. What is no JSON has no arguments that could be told from the rest."""
    return _masked_raw(raw, "", secret, set()) if secret else raw


def masked_url(url: str) -> str:
    """A URL of the file, of which the rest may have come from a variable: `https://hooks.example.com/•••`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return HIDDEN
    rest = parts.path.strip("/") or parts.query or parts.fragment
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" + (f"/{HIDDEN}" if rest else "")


def without_url(text: str, url: str) -> str:
    """A sentence about a URL, without what is behind its host."""
    return _without(text.replace(url, masked_url(url)), _parts_of(url)) if url else text


def unmasked(shown: Any, real: Any) -> Any:
    """What somebody has edited of masked arguments, with the real values where it still says HIDDEN."""
    if isinstance(shown, str) and shown.endswith(HIDDEN):
        return real
    if isinstance(shown, dict) and isinstance(real, dict):
        return {name: unmasked(value, real[name]) if name in real else value for name, value in shown.items()}
    if isinstance(shown, list) and isinstance(real, list):
        return [unmasked(*pair) for pair in zip(shown, real, strict=False)] + shown[len(real) :]
    return shown


def is_masked(value: Any) -> bool:
    """Whether a part of the value is HIDDEN."""
    return any(isinstance(leaf, str) and leaf.endswith(HIDDEN) for leaf in _leaves(value))


def _parts_of(url: str) -> set[str]:
    """What of a URL is not shown."""
    return {url.partition("://")[2].partition("/")[2]} if url != masked_url(url) else set()


# -- by place ---------------------------------------------------------------------------------------------------------


def _masked_raw(raw: bytes, task: str, secret: Secret, values: set[Any]) -> bytes:
    """JSON of `[args, kwargs]` or of an object, masked. What was masked is added to `values`."""
    if not secret and task != WEBHOOK_TASK:
        return raw
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return json.dumps(HIDDEN, ensure_ascii=False).encode() if secret.get(task) or not task else raw
    match value:
        case [list(args), dict(kwargs)]:
            said = _masked({"task": task, "args": args, "kwargs": kwargs}, secret, values)
            shown: Any = [said["args"], said["kwargs"]]
        case dict():
            shown = _masked({"task": task, **value}, secret, values)
        case _:
            shown = _masked(value, secret, values)
    if not values:
        return raw
    # A callback's event has the error and the result beside the arguments.
    masked: str = _without(json.dumps(shown, ensure_ascii=False), values)
    return masked.encode(errors="backslashreplace")


def _masked(value: Any, secret: Secret, values: set[Any]) -> Any:
    """The value; each object in it that names a task and arguments is one of a job of that task."""
    if isinstance(value, list):
        return [_masked(each, secret, values) for each in value]
    if not isinstance(value, dict):
        return value
    task = value.get("task")
    names = secret.get(task, ()) if isinstance(task, str) else ()
    shown = {name: _masked(each, secret, values) for name, each in value.items()}
    if task == WEBHOOK_TASK and isinstance(value.get("kwargs"), dict) and isinstance(value["kwargs"].get("url"), str):
        url = value["kwargs"]["url"]
        values.update(_parts_of(url))
        shown["kwargs"]["url"] = masked_url(url)
    if secret and "flow" in value and isinstance(value.get("inputs"), dict):
        # Which of them a step passes on as a secret argument is known where the flow is declared only.
        shown["inputs"] = {name: _hide(each, values) for name, each in value["inputs"].items()}
    for name in names:
        kind, _, key = name.partition(".")
        there = value.get(kind)
        if kind == "kwargs" and isinstance(there, dict):
            shown[kind] |= {each: _hide(said, values) for each, said in there.items() if key in (each, "*")}
        elif kind == "args" and isinstance(there, list):
            for n in range(len(there)):
                shown[kind][n] = _hide(there[n], values) if key in (str(n), "*") else shown[kind][n]
    return shown


def _hide(value: Any, values: set[Any]) -> str:
    values.update(_leaves(value))
    return HIDDEN


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    else:
        yield value


# -- in texts ---------------------------------------------------------------------------------------------------------


def _without(text: Any, values: Collection[Any]) -> Any:
    """The text, or bytes of JSON, without these values in any form in which it may have them."""
    if not text:
        return text
    found = text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
    written = {value if isinstance(value, str) else json.dumps(value) for value in values}
    for value in sorted({value for value in written if len(value) >= _SHORTEST}, key=len, reverse=True):
        plain = value.encode(errors="backslashreplace").decode()
        forms = {value, plain, quote(plain, safe=":@"), quote_plus(plain), repr(value)[1:-1]}
        forms |= {json.dumps(value, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False)}
        forms |= {json.dumps(form)[1:-1] for form in forms}
        for form in sorted(forms, key=len, reverse=True):
            found = found.replace(form, HIDDEN)
    return found.encode(errors="surrogateescape") if isinstance(text, bytes) else found


def _named(text: str, names: Collection[str]) -> str:
    """`<name>=<value>` of these names, as limits and tenants have it."""
    for name in names:
        named = re.escape(name).replace(r"\*", r"[^=,\s]+")
        text = re.sub(rf"(?<![A-Za-z0-9_.])({named})=(\"[^\"]*\"|[^,\s]+)", rf"\1={HIDDEN}", text)
    return text


def _as_in_lock(value: Any) -> str:
    return f'"{quote(value, safe=":@", errors="replace")}"' if isinstance(value, str) else json.dumps(value)


def _lock(lock: str, parts: Collection[str]) -> str:
    """The name of a lock without these values; a digest is none to be guessed from."""
    task, colon, said = lock.partition(":")
    if said.startswith("#"):
        return f"{task}:{HIDDEN}"
    return f"{task}{colon}{','.join(HIDDEN if part in parts else part for part in said.split(','))}"
