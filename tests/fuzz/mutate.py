"""Bytes and values that nobody meant: real ones with a few changes, and those that hypothesis thinks of."""

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

#: bytes that nothing grows beyond
MOST = 2 << 20
#: what parsers of JSON, HTTP, XML and RESP stumble over
WORDS = [
    b"\x00", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x1b[31m", b"\r", b"\n",
    b"\r\n", b"\r\n\r\n", b"\n\n", b" ", b"\t", b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"<", b">",
    b"&", b"%", b"%s", b"null", b"true", b"-", b"0", b"-0", b"-1", b"1e999", b"-1e999", b"1e-999", b"NaN", b"nan",
    b"Infinity", b"inf", b"0x10", b"01", b"1.", b".5", b"9007199254740993", b"18446744073709551616", b"9" * 400,
    b"9" * 5000, b'"\\ud800"', b'"\\u0000"', b'"\\ud83d\\ude00"', b'"\xf0\x9f\x98\x80"', b"{}", b"[]", b'""',
    b"[" * 1005, b'{"a":' * 1005, b"A" * 300, b"A" * 70_000, b"../..", b"/RPC2", b"HTTP/1.1", b"*-1\r\n", b"$-1\r\n",
    b":1\r\n", b"+OK\r\n", b"-ERR no\r\n", b"_\r\n", b"\x00" * 64,
]  # fmt: skip


def mutated(rand, data, words=WORDS, changes=None, times=(1, 1, 2, 3, 8)):
    """The data with a few changes, as often as one of `times` says; the same for the same `rand`."""
    for _ in range(rand.choice(times)):
        data = rand.choice(changes or CHANGES)(rand, data, words)
    return data[:MOST]


def at(rand, data):
    return rand.randrange(len(data) + 1)


def _insert(rand, data, words):
    start = at(rand, data)
    return data[:start] + rand.choice(words) + data[start:]


def _overwrite(rand, data, words):
    start, word = at(rand, data), rand.choice(words)
    return data[:start] + word + data[start + len(word) :]


def _delete(rand, data, _words):
    start = at(rand, data)
    return data[:start] + data[start + rand.choice((1, 1, 2, 5, 20, 200)) :]


def _flip(rand, data, _words):
    start = at(rand, data)
    return data[:start] + bytes([rand.randrange(256)]) + data[start + 1 :]


def _repeat(rand, data, _words):
    start, end = sorted((at(rand, data), at(rand, data)))
    piece = data[start : min(end, start + 300)]
    times = min(rand.choice((2, 2, 3, 10, 1000, 10_000)), MOST // (len(piece) or 1))
    return data[:start] + piece * times + data[start:]


def _cut(rand, data, _words):
    return data[: at(rand, data)]


#: each is called with (rand, data, words)
CHANGES = [_insert, _insert, _overwrite, _overwrite, _delete, _flip, _flip, _repeat, _cut]


TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(10**60), 10**60),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, 2**53 + 1, 2**63, 2**64, 1e308, 5e-324, 0.1]),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


def examples(strategy, rand, count):
    """Values of a strategy; the same for the same `rand`."""
    found = []

    @hypothesis_seed(rand.randrange(1 << 60))
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def each(value):
        found.append(value)

    each()
    return found


def nested(depth, kind="["):
    """JSON so deep."""
    opening, closing = {"[": (b"[", b"]"), "{": (b'{"a":', b"}")}[kind]
    return opening * depth + (b"" if kind == "[" else b"1") + closing * depth
