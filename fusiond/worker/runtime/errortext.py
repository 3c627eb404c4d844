r"""
An exception as text, whatever it does while it is formatted.

1. type_name  the dotted name of its class
2. message    what the exception says of itself, or what kept it from saying it
3. trace      its traceback as Python prints it; where that fails, the frames alone

Lone surrogates, such as those of a file name that is not UTF-8, are written out in each, as `\udce9`: Redis' own reader
of JSON would refuse the whole error.

An exception's class may override all that a formatter asks for (`__str__`, `__cause__`, `__class__`, `__module__`), and
each of them may raise. So what can be had without the class is read by the interpreter's own descriptors, and the rest
stands in a `try` that takes everything.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Callable

#: characters; what is kept of a type's name, of a message, and of a traceback (its end, where the error is)
MAX_NAME, MAX_MESSAGE, MAX_TRACEBACK = 512, 4096, 16384
#: characters of a message, and of a type's name, that leave room for the frames in a traceback whose end is kept
_MAX_LAST_LINE = MAX_TRACEBACK // 2
#: frames of a traceback that is made by hand
_MAX_FRAMES = 50

_qualname = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__
#: an exception's traceback, whatever a property of its class returns
frames: Callable[[BaseException], TracebackType | None] = BaseException.__dict__["__traceback__"].__get__


def type_name(kind: type) -> str:
    """`package.module.Class`, or `Class` for a built-in one."""
    name = str.__getitem__(_qualname(kind), slice(MAX_NAME))
    try:
        module = _module(kind)
    except AttributeError:  # deleted
        module = None
    if type(module) is str and module not in ("builtins", "fusiond"):
        name = f"{module}.{name}"
    return _written(name)[:MAX_NAME]


def message(error: BaseException, most: int = MAX_MESSAGE) -> str:
    """Its own words, at most so many characters."""
    try:
        # Not a slice of str(error): that may be an instance of a subclass, which slices as it likes.
        return _written(str.__getitem__(str(error), slice(most)))[:most]
    except BaseException as broken:  # noqa: BLE001 - whatever it raises, it has no words
        return f"({type_name(type(broken))} in its own __str__)"


def trace(error: BaseException, first: TracebackType | None, left_out: tuple[str, ...] = ()) -> str:
    """
    Its traceback, bounded.

    Args:
        error: the exception.
        first: the frame to begin with.
        left_out: frames of files whose paths begin with one of these are left out.
    """
    import traceback

    def shown(lines: list[str]) -> list[str]:
        # The frames of an exception group are indented behind a bar.
        return [line for line in lines if not line.lstrip("| +").startswith(places)]

    places = tuple(f'File "{path}' for path in left_out)
    words = message(error, _MAX_LAST_LINE + 1)
    why = "it is too long"
    if len(words) + len(_qualname(type(error))) <= _MAX_LAST_LINE:
        try:
            return _written("".join(shown(traceback.format_exception(type(error), error, first))))[-MAX_TRACEBACK:]
        except BaseException as broken:  # noqa: BLE001 - as above
            why = type_name(type(broken))
    text = f"{type_name(type(error))}: {words[:MAX_MESSAGE]}\n(the rest of the exception cannot be formatted: {why})\n"
    try:
        lines = shown(traceback.format_tb(first, -_MAX_FRAMES))
        text = "".join(["Traceback (most recent call last):\n", *lines, text])
    except BaseException:  # noqa: BLE001, S110 - a module's own loader is asked for the source
        pass
    return _written(text)[-MAX_TRACEBACK:]


def _written(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
