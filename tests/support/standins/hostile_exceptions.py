# ruff: noqa: PLE0307, SLOT000
# Exceptions as libraries and template engines make them, and worse ones.
"""
Task functions that raise exceptions which cannot be formatted. No fusiond here; runs under CPython 3.9 and later.
"""

import sys
import time


def fail(kind):
    """Raise an exception that does its worst when somebody formats it."""
    error = HOSTILE[kind]()
    raise error


class EndsTheProcess(Exception):
    """Formatted, it raises what `except Exception` lets through."""

    def __str__(self):
        sys.exit(7)


class EndlessWords(Exception):
    def __str__(self):
        return str(self)


class SlowWords(Exception):
    def __str__(self):
        time.sleep(60)


class RaisingProperties(Exception):
    """Every attribute that a formatter, a log or a retry policy may ask for."""

    @property
    def __cause__(self):
        raise RuntimeError("no cause")

    __context__ = __notes__ = __traceback__ = __class__ = __dict__ = __suppress_context__ = __cause__


class WordsOfAnotherKind(str):
    def __getitem__(self, key):
        raise RuntimeError("no slice")

    __len__ = __iter__ = __bool__ = __getitem__


class OddWords(Exception):
    def __str__(self):
        return WordsOfAnotherKind("odd words")


class OddClass(type):
    """A metaclass that lies about its classes' names and bases."""

    def __getattribute__(cls, name):
        raise RuntimeError(name)

    def __eq__(cls, other):
        raise RuntimeError("no comparison")

    __hash__ = type.__hash__


class OddlyMade(Exception, metaclass=OddClass):
    pass


def _syntax_error():
    """As template engines make them: the number of the line is a text."""
    error = SyntaxError("bad", ("page.html", 3, 5, "{{ oops"))
    error.lineno = "three"
    error.end_lineno = "four"
    return error


def _noted():
    error = ValueError("with notes")
    error.__notes__ = [EndlessWords(), 7, SlowWords]
    return error


def _long_chain():
    error = None
    for number in range(100_000):
        following = ValueError(number)
        following.__cause__ = error
        error = following
    return error


def give_result():
    """What json asks for its items raises what is no Exception."""
    return [HostileResult(a=1)]


class HostileResult(dict):
    def items(self):
        raise EndsTheProcess


HOSTILE = {
    "syntax": _syntax_error,
    "notes": _noted,
    "chain": _long_chain,
    "exit": EndsTheProcess,
    "recursion": EndlessWords,
    "slow": SlowWords,
    "properties": RaisingProperties,
    "words": OddWords,
    "class": OddlyMade,
    "huge": lambda: ValueError("ä" * 40_000_000),
    "surrogates": lambda: ValueError("\ud800" * 100_000),
    "module": type("OfNoModule", (Exception,), {"__module__": RaisingProperties()}),
    "name": type("N" * 3_000_000, (Exception,), {}),
    "nested": lambda: _group_of(EndsTheProcess(), 300),
}


def _group_of(error, depth):
    """Groups in groups; before 3.11 the error itself."""
    for _ in range(depth if sys.version_info >= (3, 11) else 0):
        error = ExceptionGroup("group", [error])
    return error
