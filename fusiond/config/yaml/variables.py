"""
`${VAR}` and `${VAR:-default}` in a scalar; `$$` is a dollar, any other dollar stays as it is.

The replacement is not looked at again: what a variable holds is never read as syntax.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE: Final = re.compile(r"\$\$|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{)")


class BadReference(ValueError):  # noqa: N818 - the reference is bad, not the program
    """A reference that cannot be replaced. `args` are the code, message and remedy of its problem."""


def expand(text: str, environ: Mapping[str, str]) -> str:
    """
    `text` with its references replaced.

    As in a shell, a variable that is set and empty counts as unset where there is a default.

    Raises:
        BadReference: for a variable that is unset and has no default, and for a `${` that begins no reference.
    """

    def value(match: re.Match[str]) -> str:
        """What replaces one reference."""
        name, default = match["name"], match["default"]
        if match["broken"]:
            message = f"{text[match.start() : match.start() + 20]!r} is not a reference"
            remedy = "write ${NAME} or ${NAME:-default}; $${ gives ${ itself"
            raise BadReference("bad-variable", message, remedy)
        if name is None:
            return "$"
        if default is not None:
            return environ.get(name) or default
        if name not in environ:
            remedy = f"set it, or give a default: ${{{name}:-default}}; $$ gives $ itself"
            raise BadReference("unset-variable", f"the environment variable {name} is not set", remedy)
        return environ[name]

    return _REFERENCE.sub(value, text)
