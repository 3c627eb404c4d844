"""
Which values are secrets. `***` is shown in place of each.

1. by its name     PGPASSWORD, api_key, STRIPE_SECRET, auth_token, SENTRY_DSN
2. by its form     the password of a URL, a private key, a token of a well-known service
3. by its source   a `${VAR}`: the reference is shown as it is written, or the value if it can only be a number, a
                   duration or a switch

One list of words answers two questions. To hide a value, a word anywhere in its name is enough: too much hidden costs a
look into the file. To report a secret in clear, the name must end in a word: nobody reads a linter that is often wrong.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fusiond.config.problems import mask

HIDDEN: Final = "***"
_WORDS: Final = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|credential|(?<![a-z])pass(?![a-z])"
    r"|(?:api|access|secret|signing|encryption|private|master|account)[_.-]?key"
)
_ENDS: Final = re.compile(rf"(?:{_WORDS})s?(?:[_.-]?[0-9]+)?$", re.IGNORECASE)
_HAS: Final = re.compile(
    rf"{_WORDS}|pass$|signature|private|salt|dsn|auth(?!ors?([^a-z]|$))|(^|[_.-])key$|cookie|webhook_url", re.IGNORECASE
)
_FORM: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}|\bsk_live_[A-Za-z0-9]{10,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
)

# Narrower than the pattern of `mask`: `http://h:80/@me` is no secret in clear.
_WITH_PASSWORD: Final = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def is_secret(name: str) -> bool:
    """Whether a value of this name may be a secret, so that it is not shown."""
    return _HAS.search(name) is not None


def names_secret(name: str) -> bool:
    """Whether a value of this name is hardly anything else than a secret: TOKEN is, TOKEN_TTL is not."""
    return _ENDS.search(name) is not None


def looks_secret(text: str) -> bool:
    """Whether a text has the form of a secret, or holds one."""
    return _FORM.search(text) is not None or _WITH_PASSWORD.search(text) is not None


def hidden(name: str, value: Any) -> Any:
    """The value, or `***` in its place or in place of its parts."""
    if value is None or isinstance(value, bool):
        return value
    if is_secret(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: hidden(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(name, item) for item in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if _FORM.search(value) else mask(value)
