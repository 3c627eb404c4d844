"""YAML text to nodes."""

import time
from pathlib import Path

import pytest

from fusiond.config.load import MAX_ERRORS, MAX_WARNINGS, load
from fusiond.config.yaml import source
from fusiond.config.yaml.scalars import resolve


def read(text, **environ):
    """The plain data of a text and the codes of its problems."""
    data = text if isinstance(text, bytes) else text.encode()
    try:
        root, problems = source.compose(source.source_of("f.yaml", Path("/"), data), environ)
    except source.RefusedText as refused:
        return None, [refused.problem.code]
    return root.data(), [problem.code for problem in problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("NULL", None),
        ("true", True), ("False", False),
        ("12", 12), ("-3", -3), ("+3", 3), ("0o17", 15), ("0xFF", 255), ("010", 10),
        ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-2.5E-1", -0.25),
        ("yes", "yes"), ("on", "on"), ("Off", "Off"), ("y", "y"), ("22:30", "22:30"), ("2026-01-01", "2026-01-01"),
        ("1_000", "1_000"), ("0b1", "0b1"), ("=", "="), ("<<", "<<"), ("1h30m", "1h30m"), ("0o8", "0o8"),
        ("tRue", "tRue"),
    ],
)  # fmt: skip
def test_plain_scalars_are_those_of_the_core_schema(text, value):
    """YAML 1.2: on, yes, 22:30 and dates are texts, 010 is ten."""
    found = resolve(text)
    assert found == value
    assert type(found) is type(value)


def test_every_node_knows_its_line_and_column():
    """A problem can point at a key, at a value and at an item of a list."""
    text = "a:\n  b: [x, 'yy']\nä: 1\n"
    root, _ = source.compose(source.source_of("f.yaml", Path("/"), text.encode()), {})
    b = root.get("a", "b")
    assert [item.place[1:] for item in b.items()] == [(2, 7, 1), (2, 10, 4)]
    assert root.get("a").keys["b"][1:] == (2, 3, 1)
    assert root.keys["ä"][1:] == (3, 1, 1)
    assert root.get("ä").place[1:] == (3, 4, 1)


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ('a: {\n  b: «"»0 2 * * *, c: d},\n  e: {b: "0 3 * * *"}\n}\n', "a quote is opened here", "close it"),
        ("a:\n  b: «'»0 2 * * *\nc:\n  b: '*/5 * * * *'\n", "a quote is opened here", "close it"),
        ('a: [«"»b, c]\nd: "e"\n', "a quote is opened here", "close it"),
        ("«{»\na: {b: 1},\nc: [2]\n# end\n", "a { is opened here and never closed", "close it with }"),
        ("«{»a: {b: 1},\nc:", "a { is opened here and never closed", "close it with }"),
        ("a: 1\n«queues»\n  default: {}\n", "queues has no colon", "write queues:"),
        ("a: 1\n«queues»\nb: {}\n", "queues has no colon", "write queues:"),
        ("a: 1\n«queues»", "queues has no colon", "write queues:"),
        ("a:\n  b: 1\n  «c» # d\n    e: 1\n", "c has no colon", "write c:"),
        (f"a: 1\n«{'k' * 50}»\nb: {{}}\n", f"{'k' * 40} has no colon", "write a colon behind it"),
        (f"a: 1\n«{'k' * 1025}:» 1\n", "this key is too long", "write at most 1024 characters"),
        ('a: " "«b»\n', "there is text after a closing quote", "quote the whole text; inside '…' write '' for a quote"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_where_it_was_made(text, message, remedy):
    """Not where libyaml notices it, which may be many lines below."""
    before, marked, _ = text.replace("»", "«").split("«")
    with pytest.raises(source.RefusedText) as refused:
        source.compose(source.source_of("f.yaml", Path("/"), text.replace("«", "").replace("»", "").encode()), {})
    problem = refused.value.problem
    assert (problem.line, problem.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)
    assert (problem.message.startswith(message), problem.remedy, problem.width) == (True, remedy, len(marked))


def test_variables_are_replaced_after_parsing():
    """What a variable holds is a value, never syntax; plain ones get their type from it, quoted ones stay texts."""
    environ = {"N": "4", "T": "a: b\nc: [", "EMPTY": "", "D": "$N ${N}"}
    text = "n: ${N}\nq: '${N}'\nt: ${T}\nd: ${NO:-5}\ne: ${EMPTY:-x}\nm: a${N}b$$${N}\nr: ${D}\nplain: $N $ {x}\n"
    assert read(text, **environ) == (
        {"n": 4, "q": "4", "t": "a: b\nc: [", "d": 5, "e": "x", "m": "a4b$4", "r": "$N ${N}", "plain": "$N $ {x}"},
        [],
    )


def test_an_alias_is_its_anchor():
    """Aliases work, and are counted with all that is beneath their anchor."""
    assert read("a: &x [1, {b: 2}]\nc: *x\n") == ({"a": [1, {"b": 2}], "c": [1, {"b": 2}]}, [])


#: aliases that add 40 levels each, and few values
NESTED = "".join(f"a{n}: &a{n} {'[' * 40}{f'*a{n - 1}' if n else 1}{']' * 40}\n" for n in range(40))
BILLION = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty-file"), ("# nothing\n", "empty-file"), ("---\n", "empty-file"), ("- a\n", "not-a-map"),
        ("x", "not-a-map"),
        (b"\xff\xfea\x00", "not-utf8"), (b"\xef\xbbx", "not-utf8"), (b"\xef\xbb\xbfa: \xbb", "not-utf8"),
        ("a: \x01", "control-character"), ("a: " + "x" * 2**20, "too-large"),
        ("[" * 100_000, "too-deep"), ("a: " + "{a: " * 60, "too-deep"), ("- " * 60 + "x", "too-deep"),
        (NESTED, "too-deep"),
        (BILLION, "too-many-values"), ("a: &a x\nb: [" + "*a, " * 1001 + "]", "too-many-aliases"),
        ("a: [" + "x," * 50_001 + "]", "too-many-values"),
        ("a: &a [*a]", "yaml-alias"), ("a: *b", "yaml-alias"), ("a: 1\n---\nb: 2\n", "yaml-documents"),
        ("a: !!python/object/apply:os.system [id]", "yaml-tag"), ("a: !x b", "yaml-tag"), ("!!map {a: 1}", "yaml-tag"),
        ("<<: {a: 1}", "yaml-merge"), ("? [a]\n: b", "yaml-key"), ("a: &x b\n? *x\n: c", "yaml-key"),
        ("a: */5 * * * *", "yaml-quote"), ("a: @daily", "yaml-quote"), ("a: %x", "yaml-quote"),
        ("a: b: c", "yaml-quote"),
        ("a: [${X}]", "yaml-quote"), ("a: {u: ${X}}", "yaml-quote"), ("a: &*", "yaml-quote"),
        ("a:\n\tb: 1", "yaml-tab"), ("a:\n  b: 1\n\tc: 2", "yaml-tab"),
        ("a: 1\n  b: 2", "yaml-indent"), ("a:\n  - b\n c: d", "yaml-indent"),
        ("a: 'x\n", "yaml-syntax"), ("a: [x\nb: 2", "yaml-syntax"), ("a: 'it's'", "yaml-syntax"), ("}", "yaml-syntax"),
        ("%YAML 3.0\n---\na: 1", "yaml-syntax"), ("a: - b", "yaml-syntax"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_reason(text, code):
    """Hostile and broken texts give one problem each, quickly, and nothing else."""
    assert read(text) == (None, [code])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: 1\na: 2", "duplicate-key"), ("a: ${NO}", "unset-variable"), ("a: ${", "bad-variable"),
        ("a: ${1x}", "bad-variable"),
        ("a: .inf", "not-finite"), ("a: -.INF", "not-finite"), ("a: .nan", "not-finite"), ("a: 1e999", "not-finite"),
        ("a: " + "9" * 5000, "number-too-long"), ("? \n: a\n", "yaml-key"),
    ],
)  # fmt: skip
def test_what_can_be_read_around_is_collected(text, code):
    """One bad value does not hide the problems after it."""
    data, codes = read(text + "\nz: ${ALSO}\n")
    assert codes == [code, "unset-variable"]
    assert data["z"] == "${ALSO}"


@pytest.mark.proof
@pytest.mark.parametrize(
    "text",
    [
        "workers: {m: {queues: [" + "{}, x, 1, " * 15_000 + "]}}\n",
        "tasks: {" + "".join(f"t{n}: {{run: x.y, queue: queue_{n}}}, " for n in range(9_000)) + "}\n",
        "".join(f"x{n}: {n}\n" for n in range(40_000)),
        "cron: {" + "".join(f"c{n}: {{task: a, schedule: '{n} * * * *'}}, " for n in range(9_000)) + "}\n",
        "tasks: {a: {run: x.y}}\ncron: {c: {task: a, every: 5s, args: [" + "01, " * 45_000 + "]}}\n",
    ],
    ids=["mixed-list", "unknown-queues", "unknown-keys", "bad-schedules", "warnings"],
)
def test_hostile_mistakes_are_bounded(text):
    """However many mistakes there are, the answer comes within seconds and stays short enough to read."""
    start = time.process_time()
    loaded = load("fusion.yaml", environ={}, data=f"version: 1\n{text}".encode())
    assert time.process_time() - start < 20
    assert 100 < len(loaded.problems) <= MAX_ERRORS + MAX_WARNINGS
    assert sum(len(problem.excerpt) for problem in loaded.problems) < 10**7
