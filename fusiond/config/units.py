"""
Durations and sizes as people write them: `90s`, `1h30m`, `512MiB`.

Standard library only; producers use it, too (`delay="10m"`). The schema of the file has these patterns.
"""

import re

# Largest unit first, each at most once. The digits are bounded so that every duration fits into Redis' integers as ms.
DURATION = (
    r"^(?=.)([0-9]{1,6}(\.[0-9]{1,3})?d)?([0-9]{1,7}(\.[0-9]{1,3})?h)?([0-9]{1,8}(\.[0-9]{1,3})?m)?"
    r"([0-9]{1,9}(\.[0-9]{1,3})?s)?([0-9]{1,9}ms)?$"
)
SIZE = r"^[0-9]{1,9}(\.[0-9]{1,3})?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$"
SHARE = r"^(100(\.0{1,3})?|[0-9]{1,2}(\.[0-9]{1,3})?)%$"

_DURATION = re.compile(DURATION)
_SIZE = re.compile(SIZE)
_SHARE = re.compile(SHARE)
_PART = re.compile(r"([0-9.]+)(ms|[dhms])")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DECIMAL = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, **_DECIMAL}


def seconds(text: str) -> float:
    """The seconds of a duration, exact to the ms. Raises ValueError with a sentence that holds the remedy."""
    if not _DURATION.fullmatch(text):
        if text[:1] in ("+", "-") and _DURATION.fullmatch(text[1:]):
            raise ValueError(f"{text!r} has a sign, which a duration cannot have; write {text[1:]}")
        raise ValueError(f"{text!r} is not a duration; write a number and its unit, such as 90s, 10m or 1h30m")
    return round(sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)), 3)


def size_bytes(text: str) -> int:
    """The bytes of a size. Raises ValueError with a sentence that holds the remedy."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size; write a number and its unit, such as 512MiB or 2GB")
    unit = match[2]
    return round(float(text.removesuffix(unit)) * _BYTES[unit])


def share(text: str) -> float:
    """The share that `25%` is: 0.25. Raises ValueError on anything else, and above 100 %."""
    if not _SHARE.fullmatch(text):
        raise ValueError(f"{text!r} is not a share; write a percentage from 0% to 100%")
    return float(text[:-1]) / 100


def written_size(size: int) -> str:
    """Bytes as a person would write them, the reverse of `size_bytes`: 1610612736 is `1536MiB`."""
    units = ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB")
    return next((f"{size // _BYTES[unit]}{unit}" for unit in units if size and size % _BYTES[unit] == 0), f"{size}B")


def written(duration: float) -> str:
    """Seconds as a person would write them, the reverse of `seconds`: 5400.0 is `1h30m`."""
    rest = round(duration * 1000)
    parts = []
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
