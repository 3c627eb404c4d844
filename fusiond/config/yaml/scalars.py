"""
What a plain scalar is: the core schema of YAML 1.2, nothing more.

    null  ~  (nothing)              None
    true  false                     bool
    12  -3  0o17  0xff              int
    1.5  1e3  .inf  .nan            float
    all else (yes, on, 22:30, 2026-01-01)   the text itself

PyYAML's own resolver is that of YAML 1.1, where `on` is a boolean, 22:30 a number and 010 an eight.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fusiond.config.yaml.nodes import Scalar

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_STARTS: Final = frozenset("0123456789+-.")
_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LEADING_ZERO: Final = re.compile(r"[-+]?0[0-9]+")

#: what YAML 1.1 read as numbers and dates, and YAML 1.2 leaves as texts
SEXAGESIMAL: Final = re.compile(r"[-+]?[0-9]{1,3}(:[0-5][0-9]){1,2}")
DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?")
GROUPED: Final = re.compile(r"[-+]?[0-9]+(_[0-9]+)+")
_EXPONENT: Final = re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+")

#: words that YAML 1.1 read as booleans, and what they meant
OLD_BOOLEANS: Final = {
    **dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON", "y", "Y"), "true"),
    **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF", "n", "N"), "false"),
}
#: digits of a number; longer ones cost more to read than any real value is worth
MAX_DIGITS: Final = 300


def resolve(text: str) -> Scalar:
    """The value of a plain scalar. Raises ValueError where it is a number of absurd length."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _INT.fullmatch(text):
        _bound(text)
        return int(text)
    if _FLOAT.fullmatch(text):
        _bound(text)
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if _OCTAL.fullmatch(text):
        _bound(text)
        return int(text, 0)
    if _HEX.fullmatch(text):
        _bound(text)
        return int(text, 0)
    return text


def has_leading_zero(text: str) -> bool:
    """Whether the number is written as 010: ten in YAML 1.2, eight in YAML 1.1, often meant as text."""
    return _LEADING_ZERO.fullmatch(text) is not None


def has_exponent(text: str) -> bool:
    """Whether the number is written as 1e3: a number in YAML 1.2, a text in YAML 1.1."""
    return _EXPONENT.fullmatch(text) is not None


def _bound(text: str) -> None:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
