r"""
Text that a job made, as other programs can take it.

A Python string may have lone surrogates, such as those of a file name that is not UTF-8. UTF-8 cannot have them, and
many readers of JSON refuse them. They are written out, as `\udce9`. On a page control characters are written out too.

Standard library only: `fusiond.tasks` uses it under the application's interpreter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_LONE = re.compile("[\ud800-\udfff]")
#: with control characters, and those that change the direction of the text behind them
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def json_bytes(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """The value as JSON in UTF-8. `default`: as that of `json.dumps`."""
    text = json.dumps(value, ensure_ascii=False, default=default)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE.sub(lambda found: "\\" + _escape(found), text).encode()


def visible(text: str) -> str:
    """The text as a page shows it: its characters that nobody would see are written out."""
    return _UNSEEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
