"""
The types of plain scalars: the core schema of YAML 1.2, nothing more.

    null  ~  (nothing)              None
    true  false                     bool
    12  -3  0o17  0xff              int
    1.5  1e3  .inf  .nan            float
    all else (yes, on, 22:30, 2026-01-01)   the text itself

PyYAML's own resolver follows YAML 1.1, where `on` is a boolean, 22:30 is a number and 010 is eight.
"""

import re
from typing import Final

from fusiond.config.yaml.nodes import Scalar

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER: Final = re.compile(
    r"(?P<whole>[-+]?[0-9]+)|(?P<based>0o[0-7]+|0x[0-9a-fA-F]+)"
    r"|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
#: a longer number would take long to read, and nobody needs one
_MAX_DIGITS: Final = 300

#: what YAML 1.1 reads as numbers and dates, and YAML 1.2 as texts
SEXAGESIMAL: Final = re.compile(r"[-+]?[0-9]{1,3}(:[0-5][0-9]){1,2}")
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")
GROUPED: Final = re.compile(r"[-+]?[0-9]+(_[0-9]+)+")
#: 1e3: a number in YAML 1.2, a text in YAML 1.1
EXPONENT: Final = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+")
#: 010: ten in YAML 1.2, eight in YAML 1.1, often meant as a text
LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9]+")
#: words that YAML 1.1 reads as booleans → how YAML 1.2 writes them
OLD_BOOLEANS: Final = {
    **dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON", "y", "Y"), "true"),
    **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF", "n", "N"), "false"),
}


def resolve(text: str) -> Scalar:
    """The value of a plain scalar. Raises ValueError for a number of more than 300 digits."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    if number["whole"]:
        return int(text)
    return int(text, 0) if number["based"] else float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
