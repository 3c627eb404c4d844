r"""
A job's text in Redis, as lua/shared/job.lua reads and writes it: for tests that look at one, or damage one.

    <word> <word> …\n<task>\n<header>\n<args>[\n<result>][\n<error>][\n<history>][\n<progress>]

Large arguments are in a key of their own; a job that is changed here has them in its text, where they are read as well.
"""

import re
from urllib.parse import quote_plus, unquote_to_bytes

from fusiond.broker.call import as_is, plain

#: letter → field, in the order in which they are written
WORDS = {
    "t": "token", "z": "last_token", "c": "created_at", "l": "", "x": "expires_at", "b": "started_at",
    "q": "queued_at", "k": "crashes", "r": "rescues", "i": "interrupted", "m": "permit",
    "w": "snoozed_since", "a": "cancel", "y": "unique", "o": "last_outcome", "n": "attempts", "p": "limit",
    "s": "score",
    "v": "priority", "u": "ran_with",
    "e": "ended_at", "R": "result", "E": "error", "H": "history", "G": "progress",
}  # fmt: skip
#: written as ms after created_at
_AFTER_CREATION = "xbquwe"


def encode(fields):
    """Text of a job with these fields, each a text, bytes or number; what is not a number may be in place of one."""
    every = {name: _bytes(value) for name, value in fields.items() if value is not None}
    every.setdefault("created_at", b"1")
    lengths = {"R", "E", "H", "G"}
    words = []
    for letter, name in WORDS.items():
        if letter == "l":
            words.append(b"l%d,%d" % (len(every["task"]), len(every.get("header", b""))))
        elif name in every:
            words.append(letter.encode() + _word(letter, every[name], every["created_at"], letter in lengths))
    bodies = [every["task"], every.get("header", b""), every.get("args", b"")]
    bodies += [every[name] for name in ("result", "error", "history", "progress") if name in every]
    return b"\n".join([b" ".join(words), *bodies])


def decode(text, large_args=b""):
    """Its fields, as bytes."""
    state, _, rest = text.partition(b"\n")
    words = {word[:1].decode(): word[1:] for word in state.split(b" ")}
    fields = {
        WORDS[letter]: _value(letter, value, words["c"]) for letter, value in words.items() if letter not in "lREHG"
    }
    for letter, name in (("G", "progress"), ("H", "history"), ("E", "error"), ("R", "result")):
        if letter in words:
            at = len(rest) - int(words[letter])
            rest, fields[name] = rest[: at - 1], rest[at:]
    task, header, *large = map(int, words["l"].split(b","))
    fields |= {"task": rest[:task], "args": large_args if large else rest[task + header + 2 :]}
    return fields | ({"header": rest[task + 1 : task + 1 + header]} if header else {})


def read_job(run, key):
    """The fields of a job, as bytes; `run` runs a Call."""
    large = key + (b"/args" if isinstance(key, bytes) else "/args")
    return decode(*(run(plain(as_is, "GET", each)) for each in (key, large)))


def change_job(run, key, **changes):
    """Overwrite these fields of a job, which may not exist; None: it has none."""
    fields = read_job(run, key) if run(plain(as_is, "EXISTS", key)) else {}
    run(plain(as_is, "SET", key, encode(fields | changes)))


def shift(run, key, field, ms):
    """Add to one of its times."""
    change_job(run, key, **{field: int(read_job(run, key)[field]) + ms})


def _bytes(value):
    return value if isinstance(value, bytes) else str(value).encode()


def _number(raw):
    return int(raw) if re.fullmatch(rb"-?\d{1,15}", raw) else None


def _word(letter, value, created, is_text):
    if is_text:
        return b"%d" % len(value)
    if letter in _AFTER_CREATION and _number(value) is not None and _number(created) is not None:
        return b"%d" % (_number(value) - _number(created))
    return quote_plus(value, safe=":,").encode()


def _value(letter, raw, created):
    if letter in _AFTER_CREATION and _number(raw) is not None and _number(created) is not None:
        return b"%d" % (_number(raw) + _number(created))
    return unquote_to_bytes(raw.replace(b"+", b" "))
