"""
Which values are secrets. `***` is shown in place of each.

1. by its name     PGPASSWORD, api_key, STRIPE_SECRET, auth_token, SENTRY_DSN
2. by its form     the password of a URL, a private key, a token of a well-known service
3. by its source   a `${VAR}`: the reference is shown as it is written, or the value if it can only be a number, a
                   duration or a switch

A secret in plain text is reported, and hidden in the lines that problems quote: no log of a report contains it.

One list of words answers two questions. To hide a value, a word anywhere in its name is enough: too much hidden costs a
look into the file. To report a secret in plain text, the name must end in a word: nobody reads a linter that is often
wrong.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from fusiond.config.layers import all_maps, cron_arguments, node_of
from fusiond.config.problems import Problem, mask
from fusiond.config.yaml.nodes import Node, Place, Tree
from fusiond.masking import masked_url

HIDDEN: Final = "***"
_WORDS: Final = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|token|credential|(?<![a-z])pass(?![a-z])"
    r"|(?:api|access|secret|signing|encryption|private|master|account)[_.-]?key"
)
_ENDS: Final = re.compile(rf"(?:{_WORDS})s?(?:[_.-]?[0-9]+)?$", re.IGNORECASE)
_HAS: Final = re.compile(
    rf"{_WORDS}|pass$|signature|private|salt|dsn|auth(?!ors?([^a-z]|$))|(^|[_.-])key$|cookie|webhook_url", re.IGNORECASE
)
_FORM: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}|\bsk_live_[A-Za-z0-9]{10,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
)

# Narrower than the pattern of `mask`: `http://h:80/@me` is not a secret in plain text.
_WITH_PASSWORD: Final = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def is_secret(name: str) -> bool:
    """Whether a value of this name may be a secret, so that it is not shown."""
    return _HAS.search(name) is not None


def names_secret(name: str) -> bool:
    """Whether a value of this name is almost certainly a secret: that of TOKEN is, that of TOKEN_TTL is not."""
    return _ENDS.search(name) is not None


def looks_secret(text: str) -> bool:
    """Whether a text has the form of a secret, or holds one."""
    return _FORM.search(text) is not None or _WITH_PASSWORD.search(text) is not None


def hidden(name: str, value: Any) -> Any:
    """The value, or `***` in its place or in place of its parts."""
    if value is None or isinstance(value, bool):
        return value
    if is_secret(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: hidden(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hidden(name, item) for item in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if _FORM.search(value) else mask(value)


# -- an accepted configuration ----------------------------------------------------------------------------------------

#: maps whose keys are names that somebody gave to entries: a task may be called `reset_password`
_NAMED: Final = frozenset((
    "priorities", "retry_policies", "queues", "tasks", "flows", "steps", "cron", "workers", "weights", "sinks",
    "outboxes", "calendars",
))  # fmt: skip
#: values of which nothing is known
_ARGUMENTS: Final = ("args", "for_each", "kwargs", "inputs", "environment")


def hidden_config(config: dict[str, Any], entry: str = "") -> dict[str, Any]:
    """
    What `Config.to_json` has, or a part of it, with `***` for what may be a secret.

    A value may have come from a variable, which a Config does not tell: no argument of a call is shown, and of a URL
    the host alone.
    """
    return {key: _hidden_key(key, value, entry) for key, value in config.items()}


def _hidden_key(key: str, value: Any, entry: str) -> Any:
    if key in _ARGUMENTS:
        return dict.fromkeys(value, HIDDEN) if isinstance(value, dict) else HIDDEN if value else value
    if isinstance(value, str) and value.startswith(("http://", "https://")):
        return masked_url(value)
    if not isinstance(value, dict):
        return hidden(key, value)
    if key not in _NAMED:
        return hidden_config(value, entry)
    return {
        name: hidden_config(each, name) if isinstance(each, dict) else hidden("", each) for name, each in value.items()
    }


# -- secrets in plain text --------------------------------------------------------------------------------------------

_REMEDY: Final = "write it under kwargs; if the function takes it by position only, name its place in `secret`: args.0"


def check(tree: Tree) -> Iterator[Problem]:
    """Each secret of the files; hides it. Must run before anything else quotes the files."""
    found = [pair for root in tree.roots for pair in _candidates(root) if _in_clear(*pair)]
    calls = [*_calls(tree.root)] if tree.root is not None else []
    known = {id(node) for _, node in found}
    found += [pair for call in calls for pair in _declared(*call) if id(pair[1]) not in known and _is_plain(pair[1])]
    unclear = [(call, names) for call, secret in calls if (names := _by_position(call, secret))]
    parts = [part for call, _ in unclear for item in call.items("args") for _, part in item.walk()]
    _hide([*(node for _, node in found), *filter(_is_plain, parts)])
    for key, node in found:
        message = f"the file has a secret in plain text{f', as {key}' if key else ''}"
        variable = re.sub(r"[^A-Za-z0-9_]", "_", key).upper() or "SECRET"
        yield node.place.warning("secret-in-clear", message, f'use environment_file, or "${{{variable}}}"')
    for call, names in unclear:
        task = call.text("task") or ""
        if tree.root is not None and tree.root.get("tasks", task, "secret") is not None:
            message = f"one of these may be {' or '.join(names)}, which is `secret` in task {task!r}: none is shown"
            yield call.keys["args"].warning("secret-by-position", message, _REMEDY)


def _candidates(root: Node) -> Iterator[tuple[str, Node]]:
    """Each value that could be a secret, with the key that it is under."""
    for settings in all_maps(root, "workers"):
        yield from settings.entries("environment")
    yield from cron_arguments(root)


def _calls(root: Node) -> Iterator[tuple[Node, list[str]]]:
    """Each cron entry and each step of a flow, with the arguments that `secret` of its task names."""
    calls = [entry for _, entry in root.entries("cron")]
    calls += [step for _, flow in root.entries("flows") for _, step in flow.entries("steps")]
    for call in calls:
        secret = node_of(root, "tasks", call.text("task") or "", "secret")
        yield call, [str(name.value) for name in secret.items()] if secret is not None else []


def _declared(call: Node, secret: list[str]) -> Iterator[tuple[str, Node]]:
    """The values of a call's secret arguments."""
    for name in secret:
        kind, _, key = name.partition(".")
        if kind == "kwargs" and (node := call.get("kwargs", key)) is not None:
            yield from node.walk(key)
        elif kind == "args" and key.isdigit() and int(key) < len(call.items("args")):
            yield from call.items("args")[int(key)].walk(call.text("task") or "")


def _by_position(call: Node, secret: list[str]) -> list[str]:
    """The arguments, secret by name, that a call may pass by position: nothing here knows the function's names."""
    given = {f"kwargs.{name}" for key in ("kwargs", "inputs") for name in call.names(key)}
    is_known = not call.items("args") or any(name.startswith("args.") for name in secret)
    return [] if is_known else [name for name in secret if name not in given]


def _is_plain(node: Node) -> bool:
    """Whether a value is a text or number, and refers to no variable."""
    return bool(node.raw) and "${" not in node.raw and not isinstance(node.value, bool | dict | list | None)


def _in_clear(key: str, node: Node) -> bool:
    """Whether the value is a secret itself, and neither a reference to one nor the path of its file."""
    text = node.raw
    is_named = names_secret(key) and not text.startswith(("/", "~", "."))
    return _is_plain(node) and (looks_secret(text) or is_named)


def _hide(nodes: list[Node]) -> None:
    """Replace secrets: in source lines by a star for each character, which keeps carets right; in messages by three."""
    lines: dict[int, list[Place]] = {}
    for node in nodes:
        node.raw = HIDDEN
        lines.setdefault(node.place.line, []).append(node.place)
    for number, places in lines.items():
        quoted = places[0].source.lines
        line = list(quoted[number - 1])  # once for each line: a hostile one may hold a thousand secrets
        for place in places:
            start, end = place.column - 1, place.column - 1 + place.width
            line[start:end] = "*" * len(line[start:end])
        quoted[number - 1] = "".join(line)


# -- a file as it is written ------------------------------------------------------------------------------------------

#: of which all values are hidden, whatever their names
_ENVIRONMENT: Final = "environment"
#: a line that begins with a key
_KEY_LINE: Final = re.compile(
    r"""(?P<head>(?P<before>[\s{\[,#-]*["']?)(?P<key>[A-Za-z0-9_.-]+)["']?\s*:)(?:\s+|$)(?P<rest>.*)$"""
)
#: in a line, a key and its value, unless that is a map; a quote that is not closed takes the rest of the line
_PAIR: Final = re.compile(
    r"""((?:^|[{,\s])["']?([A-Za-z0-9_.-]+)["']?\s*:\s+)"""
    r"""("(?:[^"\\]|\\.)*"|'[^']*'|["'].*|\[[^\]]*\]?|[^{\s,}\]][^,}\]]*)"""
)
#: an argument that a list names, such as `secret` of a task; it may be passed by position, too
_DECLARED: Final = re.compile(r"(?<![\w.])(?:kwargs|args)\.(\w+)")
#: the begin of the map `environment` behind something else in a line
_IN_LINE: Final = re.compile(rf"[{{,\s][\"']?{_ENVIRONMENT}[\"']?\s*:\s")


def censored(lines: Sequence[str]) -> list[str]:
    """
    The lines of a file, which need not be YAML, with `***` for what may be a secret.

    That is all of `environment`, each text and list under a name such as api_key, and what has the form of a secret;
    the path of a file with one is shown. A map is not hidden as a whole: a task may be called `reset_password`.
    """
    below, following = "", []
    for line in reversed(lines):
        following.append(below)
        below = line if line.strip() else below
    declared = {name for line in lines for name in _DECLARED.findall(line)}
    censor = _Censor(frozenset({"args", *declared} if declared else ()))
    return [censor.line(line, below) for line, below in zip(lines, reversed(following), strict=True)]


class _Censor:
    """Goes through the lines of a file."""

    def __init__(self, declared: frozenset[str]) -> None:
        #: arguments that `secret` of a task may name
        self._declared = declared
        #: what is beneath a key at this column is hidden; None: nothing is
        self._column: int | None = None
        #: of `environment`, the column of its names, which are shown; 0: not known yet; None: of no environment
        self._names: int | None = None
        self._in_armor = False

    def line(self, line: str, below: str) -> str:
        """A line as it may be shown. `below`: the next one that has a text, which tells whether a map is beneath."""
        if self._in_armor or "-----BEGIN" in line:
            self._in_armor = "-----END" not in line
            return _starred(line)
        if self._column is not None and _is_beneath(line, self._column):
            return self._beneath(line)
        self._column, found = None, _KEY_LINE.match(line)
        if found and self._hides(found["key"]) and not _has_map(found, below):
            self._column = len(found["before"].rstrip("\"'"))
            self._names = 0 if found["key"] == _ENVIRONMENT else None
            return f"{found['head']} {HIDDEN}" if found["rest"] else line
        if environment := _IN_LINE.search(line):
            # What a value has in quotes could look like the end of the map: nothing behind its begin is shown.
            self._column, self._names = _indent(line), None
            line = f"{line[: environment.end()]}{HIDDEN}"
        return mask(_FORM.sub(HIDDEN, _PAIR.sub(self._pair, line)))

    def _hides(self, key: str) -> bool:
        return key == _ENVIRONMENT or key in self._declared or (is_secret(key) and not key.endswith("_file"))

    def _pair(self, found: re.Match[str]) -> str:
        return f"{found[1]}{HIDDEN}" if self._hides(found[2]) else found[0]

    def _beneath(self, line: str) -> str:
        if self._names == 0 and line.strip():
            self._names = _indent(line)
        found = _KEY_LINE.match(line)
        if found and self._names == _indent(line):
            return f"{found['head']} {HIDDEN}" if found["rest"] else line
        return _starred(line)


def _has_map(found: re.Match[str], below: str) -> bool:
    """Whether the key of a line has a map, whose own keys tell what is hidden; never that of `environment`."""
    if found["key"] == _ENVIRONMENT:
        return False
    return found["rest"].startswith("{") or (not found["rest"] and _KEY_LINE.match(below) is not None)


def _is_beneath(line: str, column: int) -> bool:
    """Whether a line belongs to the key at that column."""
    text = line.lstrip()
    return not text or _indent(line) > column or (_indent(line) == column and text.startswith("-"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _starred(line: str) -> str:
    return f"{line[: _indent(line)]}{HIDDEN}" if line.strip() else line
