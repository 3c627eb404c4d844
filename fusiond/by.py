"""
The values of the arguments that `by` of the file names, as one text: equal for calls that are the same.

A text is put into quotes, and each of its bytes that is no letter, digit or one of `_.~:@-` is written as `%XX`. So no
two lists of values give one text. `broker/lua/shared/by.lua` makes the same of what is pushed to the inbox.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

#: bytes; a longer text is replaced by its digest
MOST_VALUES: Final = 100
#: integers from here on are not exact in every language
_TOO_LARGE: Final = 2**53


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


def named(
    by: Sequence[str], run: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """
    The same call, with the arguments by name that `by` looks for by name and the caller gave by position.

    What stands behind the first of them is named too. The function's signature says which they are, if this process has
    imported it; nothing is imported here. Otherwise, and if `by` counts positions, the call stays as it is.

    Args:
        by: names such as `kwargs.user_id` and `args.0`.
        run: the dotted path of the task's function.
        args: the call's positional arguments.
        kwargs: its keyword arguments.
    """
    keywords = {name.removeprefix("kwargs.") for name in by}
    if not args or keywords <= kwargs.keys() or any(name.startswith("args.") for name in by):
        return args, kwargs
    module, _, name = run.rpartition(".")
    try:
        parameters = list(inspect.signature(getattr(sys.modules[module], name)).parameters.values())
    except (KeyError, AttributeError, TypeError, ValueError):
        return args, kwargs
    first = next((n for n, each in enumerate(parameters[: len(args)]) if each.name in keywords), len(args))
    moved = [each.name for each in parameters[first : len(args)] if each.kind is each.POSITIONAL_OR_KEYWORD]
    if len(moved) < len(args) - first or kwargs.keys() & set(moved):
        return args, kwargs
    return args[:first], {**dict(zip(moved, args[first:], strict=True)), **kwargs}


def wanted(unique: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
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
        remedy = "; pass it by name" if args and kind == "kwargs" else ""
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
