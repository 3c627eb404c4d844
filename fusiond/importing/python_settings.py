"""
Settings that are a module of Python. It is read as a syntax tree, and never run.

1. parse      the text; what the parser cannot hold in its stack is refused
2. evaluate   literals, names that were assigned, sums and products, f-strings; a read of an environment variable with a
              default becomes a Reference; other calls stay Calls, and what only a run tells is Unknown
3. collect    assignments of the module and of its classes, and calls that are statements

Conditions are not decided: the statements of each branch are read, the last one wins.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fusiond.importing.draft import Expanded, Reference, Unknown
from fusiond.importing.input_files import ImportRefused

if TYPE_CHECKING:
    from fusiond.importing.finished_file import SourceText

#: of one assigned value, those of the names in it included
_MAX_VALUES: Final = 20_000
#: what reads the environment: os.environ.get, os.getenv, env.int of django-environ, config of decouple
_READER: Final = re.compile(r"(?:^|\.)(?:environ\.get|getenv|config|env(?:\.(?:int|str|url))?)$")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CASTS: Final = frozenset({"int", "str", "float"})
_NUMBERS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
#: why a condition is a comment
UNDECIDED: Final = "the condition was not decided: each branch was read"
_LARGEST: Final = 10**12
#: the default of a variable, as a plain value of the file can have it
_DEFAULT: Final = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9_./:-]*")
_LONGEST_TEXT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Imported:
    """Something that another module defines: its dotted path."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class PythonCall:
    """A call that was not made."""

    function: str
    args: list[Any]
    kwargs: dict[str, Any]
    line: int
    source: str
    #: the line of a condition around it; 0: there is none
    condition: int = 0

    def __str__(self) -> str:
        return self.source


@dataclass(slots=True)
class PythonModule:
    """What a module says of itself."""

    #: name → value, as the last assignment has it; `app.conf.timezone` is a name, too
    names: dict[str, Any] = field(default_factory=dict)
    #: class → its attributes
    classes: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: calls that are statements, or whose value is assigned
    calls: list[PythonCall] = field(default_factory=list)
    #: name that is assigned under a condition, which was not decided → the line of the condition
    conditions: dict[str, int] = field(default_factory=dict)


def module_of(source: SourceText) -> PythonModule:
    """Read a module. Raises ImportRefused if it is none, or nested too deeply."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" and the like
            tree = ast.parse(source.text)
        found = PythonModule()
        _Reader(found).body(tree.body)
    except SyntaxError as error:
        place = f", line {error.lineno}" if error.lineno else ""
        raise ImportRefused(f"{source.name}{place}: it is no Python of this interpreter: {error.msg}") from error
    except (RecursionError, MemoryError) as error:
        raise ImportRefused(f"{source.name} is nested too deeply; no settings are") from error
    except _TooLarge as error:
        raise ImportRefused(f"{source.name} has a value of more than {_MAX_VALUES:,} parts") from error
    return found


class _TooLarge(Exception):  # noqa: N818 - the value is too large
    """A value has more parts than any settings have: it refers to others that refer to others."""


class _Reader:
    """Collects what the statements of one scope say."""

    def __init__(self, module: PythonModule, names: dict[str, Any] | None = None) -> None:
        self._module = module
        #: what is assigned here; of the module unless this is another scope
        self.names = module.names if names is None else names
        #: what is assigned around this scope
        self._outer: dict[str, Any] = {}
        self._imports: dict[str, str] = {}
        #: name → the parts of its value
        self._sizes: dict[str, int] = {}
        self._parts = 0
        #: line of the innermost condition around the statement
        self._condition = 0

    def body(self, statements: list[ast.stmt]) -> None:
        """Read statements in their order."""
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            self._assign(node.target, ast.BinOp(node.target, node.op, node.value, lineno=node.lineno))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self._call(node.value)
        elif isinstance(node, ast.ClassDef):
            inner = self._inner({})
            inner.body(node.body)
            self._module.classes[node.name] = inner.names
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.names[node.name] = Unknown(node.name)
            self._inner({}).body(node.body)
        else:
            self._blocks(node)

    def _inner(self, names: dict[str, Any]) -> _Reader:
        inner = _Reader(self._module, names)
        inner._outer, inner._condition = self._outer | self.names, self._condition
        inner._imports, inner._sizes = dict(self._imports), dict(self._sizes)
        return inner

    def _blocks(self, node: ast.stmt) -> None:
        """The statements inside of a condition, a loop, `try` or `with`."""
        around = self._condition
        if isinstance(node, ast.If | ast.Try | ast.For | ast.While):
            self._condition = node.lineno
        for name in ("body", "handlers", "orelse", "finalbody"):
            for inner in getattr(node, name, []):
                self.body(inner.body) if isinstance(inner, ast.ExceptHandler) else self._statement(inner)
        self._condition = around

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        base = "." * node.level + (node.module or "") + "." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            name = alias.asname or (alias.name if base else alias.name.partition(".")[0])
            self._imports[name] = base + (alias.name if base or alias.asname else name)
            self.names.pop(name, None)

    def _assign(self, target: ast.expr, node: ast.expr) -> None:
        self._parts = 0
        value = self._value(node)
        if isinstance(value, PythonCall):
            self._module.calls.append(value)
        if isinstance(target, ast.Name | ast.Attribute):
            name = ast.unparse(target)
            self.names[name] = value
            self._note_condition(name)
            self._sizes[name] = self._parts if isinstance(value, list | dict | PythonCall) else 1
        elif isinstance(target, ast.Subscript):
            self._put(ast.unparse(target.value), self._value(target.slice), value)

    def _put(self, name: str, key: Any, value: Any) -> None:
        """`name[key] = value`."""
        around = self.names.get(name)
        self._note_condition(name)
        if isinstance(around, dict) and isinstance(key, str):
            self.names[name] = {**around, key: value}
            self._sizes[name] = self._sizes.get(name, 0) + self._parts

    def _note_condition(self, name: str) -> None:
        if self._condition:
            self._module.conditions[name] = self._condition

    def _call(self, node: ast.Call) -> None:
        self._parts = 0
        value = self._value(node)
        if isinstance(value, PythonCall):
            self._module.calls.append(value)

    # -- values

    def _value(self, node: ast.expr) -> Any:
        self._count(1)
        for kind, reader in self._readers.items():
            if isinstance(node, kind):
                return reader(self, node)
        return Unknown(_source(node))

    def _count(self, parts: int) -> None:
        self._parts += parts
        if self._parts > _MAX_VALUES:
            raise _TooLarge

    def _constant(self, node: Any) -> Any:
        known = node.value is None or isinstance(node.value, bool | int | float | str)
        return node.value if known else Unknown(_source(node))

    def _name(self, node: Any) -> Any:
        name = ast.unparse(node)
        for names in (self.names, self._outer):
            if name in names:
                self._count(self._sizes.get(name, 1))
                return names[name]
        first, dot, rest = name.partition(".")
        if first in self._imports and all(part.isidentifier() for part in name.split(".")):
            return Imported(self._imports[first] + dot + rest)
        return Unknown(name)

    def _list(self, node: Any) -> list[Any]:
        found: list[Any] = []
        for item in node.elts:
            value = self._value(item.value if isinstance(item, ast.Starred) else item)
            found += value if isinstance(item, ast.Starred) and isinstance(value, list) else [value]
        return found

    def _dict(self, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in zip(node.keys, node.values, strict=True):
            value = self._value(item)
            if key is None:
                found |= _as_map(value)
            else:
                found[_key(self._value(key))] = value
        return found

    def _text(self, node: Any) -> Any:
        parts = [self._value(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values]
        return _joined(parts) if all(map(_is_text, parts)) else Unknown(_source(node))

    def _operation(self, node: Any) -> Any:
        left, right = self._value(node.left), self._value(node.right)
        if isinstance(node.op, ast.BitOr) and (isinstance(left, dict) or isinstance(right, dict)):
            return _as_map(left) | _as_map(right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Add) and all(isinstance(part, str | Reference) for part in (left, right)):
            return _joined([left, right])
        apply = _NUMBERS.get(type(node.op))
        both = all(isinstance(part, int | float) and abs(part) <= _LARGEST for part in (left, right))
        if apply is None or not both or (right == 0 and isinstance(node.op, ast.Div | ast.FloorDiv)):
            return Unknown(_source(node))
        return apply(left, right)

    def _sign(self, node: Any) -> Any:
        value = self._value(node.operand)
        known = isinstance(node.op, ast.USub) and isinstance(value, int | float)
        return -value if known else Unknown(_source(node))

    def _called(self, node: Any) -> Any:
        function = self._name(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else None
        name = function.path if isinstance(function, Imported) else _source(node.func)
        args = [self._value(each) for each in node.args]
        kwargs = dict(self._keywords(node.keywords))
        if name in _CASTS and len(args) == 1 and isinstance(args[0], Reference | int | float | str):
            return args[0]
        if _READER.search(name) and args and isinstance(args[0], str):
            default = args[1] if len(args) > 1 else kwargs.get("default")
            known = default is not None and not isinstance(default, bool) and _DEFAULT.fullmatch(str(default))
            return Reference(args[0], str(default)) if known and _WORD.fullmatch(args[0]) else Unknown(_source(node))
        if name == "dict" and len(args) <= 1:
            return _as_map(args[0]) | kwargs if args else kwargs
        return PythonCall(name, args, kwargs, node.lineno, _source(node), self._condition)

    def _keywords(self, keywords: list[ast.keyword]) -> Iterator[tuple[str, Any]]:
        for each in keywords:
            value = self._value(each.value)
            if each.arg is not None:
                yield each.arg, value
            elif isinstance(value, dict):
                yield from value.items()

    _readers: Final[dict[Any, Callable[[_Reader, Any], Any]]] = {
        ast.Constant: _constant,
        (ast.Name, ast.Attribute): _name,
        (ast.List, ast.Tuple, ast.Set): _list,
        ast.Dict: _dict,
        ast.JoinedStr: _text,
        ast.BinOp: _operation,
        ast.UnaryOp: _sign,
        ast.Call: _called,
    }


def is_plain(value: Any) -> bool:
    """Whether it is a text that no variable changes."""
    return isinstance(value, str) and not isinstance(value, Expanded)


def has_unknown(value: Any) -> bool:
    """Whether a part of it is neither JSON nor known."""
    if isinstance(value, dict | list):
        return any(map(has_unknown, value.values() if isinstance(value, dict) else value))
    return value is not None and not isinstance(value, bool | int | float | str)


def _is_text(part: Any) -> bool:
    return isinstance(part, str | int | Reference)


def _joined(parts: list[Any]) -> Any:
    """Texts, one after the other; with a reference, a text that the loader expands."""
    if sum(len(str(part)) for part in parts) > _LONGEST_TEXT:
        return Unknown("a long text")
    if not any(isinstance(part, Reference | Expanded) for part in parts):
        return "".join(map(str, parts))
    return Expanded("".join(str(part) if isinstance(part, Expanded) else _escaped(part) for part in parts))


def _escaped(part: Any) -> str:
    return str(part) if isinstance(part, Reference) else str(part).replace("$", "$$")


def _as_map(value: Any) -> dict[str, Any]:
    """A map; of one that is not known, an entry that says so."""
    return value if isinstance(value, dict) else {f"**{value}": Unknown(str(value))}


def _key(value: Any) -> str:
    return value.path if isinstance(value, Imported) else str(value)


def _source(node: ast.AST) -> str:
    """The text of an expression, shortened."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 80 else text[:79] + "…"
