"""
The values of the arguments that `by` of the file names, as one text: equal for calls that are the same.

A text is put into quotes, and each of its bytes that is not a letter, a digit or one of `_.~:@-` is written as `%XX`.
So no two lists of values give one text. `broker/lua/shared/argument_values.lua` does the same with jobs that are pushed
to the inbox.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

#: bytes; a longer text is replaced by its digest
MOST_VALUES: Final = 100
#: integers from here on are not exact in every language
_TOO_LARGE: Final = 2**53
_BY_NAME: Final = "; pass it by name; if the function takes it by position only, `by` in the file must say args.N"


def values_of(by: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """
    The values of these arguments of a call.

    Args:
        by: names such as `kwargs.user_id` and `args.0`.
        args: the call's positional arguments.
        kwargs: its keyword arguments.

    Raises:
        ValueError: a sentence about the argument that is missing, or of another type.
    """
    text = ",".join(_text(name, _value(name, args, kwargs)) for name in by)
    return "#" + hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() if len(text) > MOST_VALUES else text


def by_name(names: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """
    The same call, with by name what it passes by position. If it has more than there are names, it stays as it is.

    Args:
        names: of the parameters in their order, with a comma between them; empty for one that has none.
        args: the call's positional arguments.
        kwargs: its keyword arguments.
    """
    found = names.split(",")
    first, moved = found.count(""), found[found.count("") : len(args)]
    if len(args) > len(found) or kwargs.keys() & set(moved):
        return args, kwargs
    return args[:first], {**dict(zip(moved, args[first:], strict=True)), **kwargs}


def names_to_bind(names: str, by: Collection[str], secret: Collection[str] = ()) -> str:
    """The names behind the first that `by` or `secret` names; none if these name nothing, or if `by` counts."""
    found, wanted = names.split(","), {*by, *secret}
    if not wanted or any(name.startswith("args.") for name in by):
        return ""
    first = next((n for n, name in enumerate(found) if f"kwargs.{name}" in wanted), len(found))
    return ",".join([""] * first + found[first:])


def parameter_names(run: str) -> str:
    """The same names of a function, by its dotted path, if this process has imported it; nothing is imported here."""
    module, _, name = run.rpartition(".")
    try:
        parameters = inspect.signature(getattr(sys.modules[module], name)).parameters.values()
    except (KeyError, AttributeError, TypeError, ValueError):
        return ""
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return ",".join("" if each.kind is kinds[0] else each.name for each in parameters if each.kind in kinds)


def unique_key(unique: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """
    How a job of this call is unique, as the scripts read it.

    Args:
        unique: as `Unique.to_text` gives it.
        args: the call's positional arguments.
        kwargs: its keyword arguments.

    Raises:
        ValueError: as `values_of`.
    """
    *rules, by = unique.split(",", 3)
    return ",".join((*rules, values_of(by.split(",") if by else (), args, kwargs)))


def _value(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    kind, _, key = name.partition(".")
    try:
        return args[int(key)] if kind == "args" else kwargs[key]
    except LookupError:
        remedy = _BY_NAME if args and kind == "kwargs" else ""
        raise ValueError(f"{name} is missing{remedy}") from None


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) < _TOO_LARGE:
        return str(int(value))
    if isinstance(value, str):
        try:
            return f'"{quote(value, safe=":@")}"'
        except UnicodeEncodeError:
            pass  # a lone surrogate
    raise ValueError(f"{name} is neither a text, nor a boolean, nor an integer below 2^53")
