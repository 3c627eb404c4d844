"""
What is never shown of a value, whoever asks: `***` stands for it.

1. by its name     PGPASSWORD, api_key, STRIPE_SECRET, auth_token, SENTRY_DSN
2. by its form     the password of a URL
3. by its source   what a `${VAR}` held: the reference is shown as it was written, or the value where it can only be a
                   number, a duration or a switch
"""

from __future__ import annotations

import re
from typing import Any, Final

from fusiond.config.problems import mask

HIDDEN: Final = "***"
# Too much hidden costs a look into the file; too little cannot be taken back.
_NAME: Final = re.compile(
    r"pass(word|wd|phrase|code|$)|pwd|secret|token|credential|signature|private|salt|dsn|auth(?!ors?([^a-z]|$))"
    r"|(api|access|secret|signing|encryption|master|account)[_.-]?key|(^|[_.-])key$|cookie|webhook_url",
    re.IGNORECASE,
)


def is_secret(name: str) -> bool:
    """Whether a value of this name is taken for a secret."""
    return _NAME.search(name) is not None


def hidden(name: str, value: Any) -> Any:
    """The value, or `***` in its place or in the places of its parts."""
    if value is None or isinstance(value, bool):
        return value
    if is_secret(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: hidden(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(name, item) for item in value]
    return mask(value) if isinstance(value, str) else value
