"""
`${VAR}` and `${VAR:-default}` in a scalar; `$$` is a dollar, any other dollar stays as it is.

The replacement is not looked at again, so that what a variable holds is never read as syntax.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE: Final = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")


class BadReference(ValueError):  # noqa: N818 - it is the reference that is bad
    """A reference that cannot be replaced: code, message and remedy, for a Problem."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        self.code, self.message, self.remedy = code, message, remedy
        super().__init__(f"{message}; {remedy}")


def expand(text: str, environ: Mapping[str, str]) -> str:
    """
    `text` with its references replaced.

    A variable that is set but empty counts as unset where there is a default, as in a shell.

    Raises:
        BadReference: a variable that is unset and has no default, or `${` that begins no reference.
    """

    def value(match: re.Match[str]) -> str:
        """What stands in the place of one reference."""
        if match["broken"]:
            raise BadReference(
                "bad-variable",
                f"{_from(text, match)!r} is not a reference",
                "write ${NAME} or ${NAME:-default}; $${ is a plain dollar and brace",
            )
        name, default = match["name"], match["default"]
        if name is None:
            return "$"
        if default is not None:
            return environ.get(name) or default
        if name not in environ:
            raise BadReference(
                "unset-variable",
                f"the environment variable {name} is not set",
                f"set it, or give a default: ${{{name}:-default}}; $$ is a plain dollar",
            )
        return environ[name]

    return _REFERENCE.sub(value, text)


def _from(text: str, match: re.Match[str]) -> str:
    return text[match.start() : match.start() + 20]
