"""
How deep JSON may be nested: one limit for arguments, meta and results, the same on every version of Python.

Versions of Python differ in how deep they read and write: without a limit of our own, one host could store what
another host cannot read.

Standard library only, CPython 3.9 and later: it also runs under the application's own interpreter.
"""

from __future__ import annotations

#: arrays and objects inside one another, the outermost included; Redis reads 1,000, Python 3.11 a little less
MOST = 500
#: for a sentence about a value
TOO_DEEP = f"it is nested deeper than {MOST} levels"

_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS = bytes(set(range(256)) - _STEP.keys())


def too_deep(text: bytes) -> bool:
    """Whether JSON is nested deeper than MOST levels; for text that is not JSON, the result means nothing."""
    if text.count(b"[") + text.count(b"{") <= MOST:
        return False
    # Imported here, since the child of a job with few brackets needs neither.
    import itertools
    import re

    brackets = re.sub(rb'"[^"\\]*(?:\\.[^"\\]*)*"', b"", text, flags=re.DOTALL).translate(None, _OTHERS)
    return max(itertools.accumulate(map(_STEP.__getitem__, brackets)), default=0) > MOST
