"""
Text for people and for programs.

1. safe      text from elsewhere without characters that control the terminal, and in its encoding; errors and notes on
             standard error
2. worded    lengths of time, moments beside now or by the clock, numbers of things
3. JSON      in UTF-8, also safe for a terminal
"""

import codecs
import io
import json
import re
import sys
import time
from typing import Any, Final

_UNUSUAL: Final = re.compile(r"[^\x00-\x7e]")
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


#: what stands for these characters where the locale has no UTF-8
_ASCII: Final = dict(zip("…→─├│└·•×µ✗–◐●○−“”‘’", ["...", "->", *"-||`.*xux-oO.-\"\"''"], strict=True))


def as_the_terminal_reads() -> None:
    """Print in the encoding of the locale: signs as ASCII and other characters as escapes where it lacks them."""
    codecs.register_error("fusiond", _replaced)
    encoding = None
    if sys.flags.utf8_mode:  # Python turns that on by itself in the locales C and POSIX
        import locale

        encoding = None if "utf" in locale.getencoding().lower() else "ascii"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=encoding, errors="fusiond")


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeEncodeError) and (sign := _ASCII.get(error.object[error.start])):
        return sign, error.start + 1
    return codecs.backslashreplace_errors(error)


def one_line(text: str, most: int | None = None) -> str:
    """The text on one line, each control character replaced by a space, cut to `most` characters."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if most is None or len(line) <= most else line[: most - 1] + "…"


def legible(text: str) -> str:
    """The text with its lines; each other control character is replaced by a space."""
    return "\n".join(map(one_line, text.split("\n")))


def tell(sentence: str) -> None:
    """Print an error, warning or note of the command on standard error."""
    print(f"fusiond: {legible(sentence)}", file=sys.stderr, flush=True)


def span(seconds: float) -> str:
    """A length of time in its two largest units: `250ms`, `3s`, `4m 10s`, `2h`, `3d 4h`."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    left, parts = int(seconds), []
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        if number:
            parts.append(f"{number}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def when(at_ms: float | None, now_ms: float) -> str:
    """A moment relative to now: `3m ago`, `in 5s`, `now`; "" for None."""
    if at_ms is None:
        return ""
    seconds = (at_ms - now_ms) / 1000
    if abs(seconds) < 1:
        return "now"
    text = span(abs(seconds)).split()[0]
    return f"in {text}" if seconds > 0 else f"{text} ago"


def clock(at_ms: float | None) -> str:
    """A moment in the viewer's zone: `17:29:41` today, `Sat 17:29:41` within six days, else `2030-01-31 17:29`."""
    if at_ms is None:
        return ""
    there, now = time.localtime(at_ms / 1000), time.time()
    is_today = there[:3] == time.localtime(now)[:3]
    is_near = abs(now - at_ms / 1000) < 6 * 86_400
    return time.strftime("%H:%M:%S" if is_today else "%a %H:%M:%S" if is_near else "%Y-%m-%d %H:%M", there)


def count(number: int, noun: str, nouns: str = "") -> str:
    """`1 job`, `2,000 jobs`; `nouns` is an irregular plural."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def print_json(value: Any) -> None:
    """Print one JSON document: indented, in UTF-8, keys in their order."""
    print(json_text(value, indent=2))


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON in UTF-8; DEL, C1 and lone surrogates are escaped too, as the reader may be a terminal."""
    in_utf8 = "utf" in (sys.stdout.encoding or "utf")
    text = json.dumps(value, ensure_ascii=not in_utf8, indent=indent)
    return text if text.isascii() and "\x7f" not in text else _UNUSUAL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    if char == "\x7f":
        return "\\u007f"  # json.dumps leaves it as it is
    return char if char.isprintable() else json.dumps(char)[1:-1]
