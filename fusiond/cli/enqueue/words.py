"""
The arguments of a task on the command line.

    ARG           a string
    NAME=VALUE    a keyword, a string
    NAME:=JSON    a keyword, any JSON

    3   =>  "3"          n=3  =>  {"n": "3"}          n:=3  =>  {"n": 3}

A string that looks like a keyword, such as `a=b`, must be passed with --args, which takes JSON.
"""

import argparse
import contextlib
import json
import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from fusiond.errors import BadArguments
from fusiond.json_depth import TOO_DEEP, too_deep

T = TypeVar("T")

#: characters that an error shows of a value that is nested too deep
_SHOWN: Final = 40
_KEYWORD: Final = re.compile(r"([^\W\d]\w*)(:?=)(.*)", re.DOTALL)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the words, --args and --kwargs."""
    parser.add_argument(
        "words",
        nargs="*",
        default=[],
        metavar="ARG | NAME=VALUE | NAME:=JSON",
        help="arguments; ARG and VALUE are strings; pass a string such as a=b with --args",
    )
    parser.add_argument("--args", type=json_list, default=[], metavar="JSON", help="arguments as a JSON array")
    parser.add_argument("--kwargs", type=json_object, default={}, metavar="JSON", help="keywords as a JSON object")


def arguments(options: argparse.Namespace) -> tuple[list[Any], dict[str, Any]]:
    """
    The call's arguments: --args first, then the words.

    Raises:
        BadArguments: a keyword is given twice, or the value of a NAME:= is not JSON.
    """
    args, kwargs = split(options.words)
    twice = sorted(kwargs.keys() & options.kwargs.keys())
    if twice:
        raise BadArguments(f"keyword {twice[0]!r} is given twice, as a word and in --kwargs")
    return [*options.args, *args], {**options.kwargs, **kwargs}


def split(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The positional arguments and the keywords among the words. Raises BadArguments."""
    args: list[str] = []
    kwargs: dict[str, Any] = {}
    for word in words:
        match = _KEYWORD.fullmatch(word)
        if match is None:
            args.append(word)
            continue
        name, sign, text = match.groups()
        if name in kwargs:
            raise BadArguments(f"keyword {name!r} is given twice")
        kwargs[name] = text if sign == "=" else _json(name, text)
    return args, kwargs


def json_list(text: str) -> list[Any]:
    """A JSON array, as an argparse type."""
    return _of_type(text, list, "a JSON array such as '[1, \"two\"]'")


def scalar(text: str) -> str | int:
    """A priority, or how many jobs, as the producer takes it."""
    return int(text) if text.isdecimal() else text


def callback(text: str) -> dict[str, str]:
    """A task's name, or a URL, as the producer takes it."""
    if not text:
        return {}
    return {"webhook" if text.startswith(("http://", "https://")) else "task": text}


def json_object(text: str) -> dict[str, Any]:
    """A JSON object, as an argparse type."""
    return _of_type(text, dict, 'a JSON object such as \'{"region": "eu"}\'')


def _of_type(text: str, kind: type[T], what: str) -> T:
    if too_deep(text.encode(errors="replace")):
        raise argparse.ArgumentTypeError(f"{text[:_SHOWN]!r}…: {TOO_DEEP}")
    with contextlib.suppress(ValueError):
        if isinstance(value := json.loads(text), kind):
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not {what}")


def _json(name: str, text: str) -> Any:
    if too_deep(text.encode(errors="replace")):
        raise BadArguments(f"{name}:={text[:_SHOWN]}…: {TOO_DEEP}; write {name}=… for a string")
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadArguments(f"{name}:={text} is not JSON ({error}); write {name}={text} for a string") from error
