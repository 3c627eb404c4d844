"""
What follows the end of a job: which task is called back, as Redis holds it.

A callback is JSON: the queue, task, priority, expiry in ms and uniqueness of the job that is enqueued, and its `url` if
that job calls a URL. A job carries its callbacks in its header, since the scripts in Redis know no file.

`follow` is the text of both callbacks: the letters s for success and f for failure, as far as there is one, and the
JSON with `on_success` and `on_failure`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

#: the queue of callbacks that call a URL, and the task that does so
CALLBACKS: Final = "callbacks"
WEBHOOK_TASK: Final = "fusiond.webhook"

#: key -> its letter
_LETTERS: Final = {"on_success": "s", "on_failure": "f"}

#: as JSON
Callback = dict[str, Any]


def follow_text(callbacks: Mapping[str, Callback | None]) -> str:
    """The text of these callbacks, `on_success` and `on_failure`; empty where there are none."""
    given = {key: callbacks[key] for key in _LETTERS if callbacks.get(key)}
    if not given:
        return ""
    return "".join(_LETTERS[key] for key in given) + json.dumps(given, ensure_ascii=False, separators=(",", ":"))


def split(follow: str) -> tuple[str, str]:
    """The letters and the JSON."""
    letters, brace, rest = follow.partition("{")
    return letters, brace + rest


def callbacks_of(follow: str) -> dict[str, Callback]:
    """The callbacks that the text has. Raises ValueError, TypeError for what no daemon has written."""
    found = json.loads(split(follow)[1] or "{}")
    return {key: dict(found[key]) for key in _LETTERS if key in found}
