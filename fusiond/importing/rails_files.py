"""
Files of Rails applications: YAML with ERB in it, a section for each environment, and classes of Ruby.

ERB is not run. An expression that reads an environment variable with a default becomes `${VARIABLE:-default}`; any
other one is Unknown. A job's class is run by `bin/rails runner`, as a program.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from fusiond.importing.draft import Draft, Reference, Unknown, has_unknown
from fusiond.importing.foreign_yaml import documents
from fusiond.importing.input_files import ImportRefused, SourceText

#: what becomes of jobs
RUNNER: Final = "Ruby code is run as a program, `bin/rails runner`; a task rewritten in Python names its function."
_ERB: Final = re.compile(r"<%(=|#|-)?(.*?)-?%>", re.DOTALL)
_TOKEN: Final = re.compile(r"ERB_([0-9]{1,9})_VALUE")
_LITERAL: Final = r"""["']?([A-Za-z0-9_./:-]+)["']?"""
_NAME: Final = r"""["']([A-Za-z_][A-Za-z0-9_]*)["']"""
_VARIABLE: Final = re.compile(
    rf"(?:Integer)?\(*\s*ENV(?:\.fetch\(\s*{_NAME}\s*,\s*{_LITERAL}\s*\)|\.fetch\(\s*{_NAME}\s*\)\s*\{{\s*{_LITERAL}\s*\}}"
    rf"|\[\s*{_NAME}\s*\]\s*\|\|\s*{_LITERAL})\s*\)*(?:\.to_[is])?"
)
_CLASS: Final = re.compile(r"(?:::)?[A-Z]\w*(?:::[A-Z]\w*)*")


def rails_data(source: SourceText, draft: Draft) -> dict[str, Any]:
    """The map of the file, its ERB replaced, its keys without the colon of symbols."""
    expressions: list[str] = []

    def replaced(found: re.Match[str]) -> str:
        """What stands in place of a tag of ERB: a mark for `<%= … %>`, nothing for others."""
        if found[1] == "=":
            expressions.append(" ".join(found[2].split()))
            return f"ERB_{len(expressions) - 1}_VALUE"
        if found[1] != "#" and found[2].strip():
            line = source.text.count("\n", 0, found.start()) + 1
            reason = "Ruby is not run; what is around it was read as if it were not there"
            draft.leave_out(f"{source.name}, line {line}, {_short(found[0])}", reason)
        return ""

    text = _ERB.sub(replaced, source.text)
    data = _restored(next(iter(documents(source.name, text)), None), expressions)
    if not isinstance(data, dict):
        raise ImportRefused(f"{source.name} is not a map of settings; name a file such as config/{source.name}")
    return data


def _restored(value: Any, expressions: list[str]) -> Any:
    """With references and Unknowns in the places of ERB."""
    if isinstance(value, dict):
        return {_text(key, expressions).lstrip(":"): _restored(item, expressions) for key, item in value.items()}
    if isinstance(value, list):
        return [_restored(item, expressions) for item in value]
    if not isinstance(value, str) or not _TOKEN.search(value):
        return value
    # The file itself may have such a text: it is no more than a text then.
    if not any(int(each) < len(expressions) for each in _TOKEN.findall(value)):
        return value
    whole = _TOKEN.fullmatch(value)
    found = _VARIABLE.fullmatch(expressions[int(whole[1])]) if whole else None
    if found is None:
        return Unknown(_text(value, expressions))
    name, default = next((found[n], found[n + 1]) for n in (1, 3, 5) if found[n])
    return Reference(name, default)


def _text(value: str, expressions: list[str]) -> str:
    """A text with its ERB as it was."""

    def source(found: re.Match[str]) -> str:
        number = int(found[1])
        return f"<%= {expressions[number]} %>" if number < len(expressions) else found[0]

    return _TOKEN.sub(source, value)


def number(value: Any, where: str, draft: Draft) -> int | Reference | None:
    """A number, or a reference to one; None, and a comment, if it cannot be known."""
    if isinstance(value, Reference) and value.default.isdigit():
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    draft.leave_out(f"{where}: {_short(value)}", "it is not a number that is known before Ruby runs")
    return None


def program(name: Any, arguments: Any, where: str, draft: Draft, *, is_active_job: bool) -> list[str] | None:
    """The command that runs a job's class in the Rails application; None, and a comment, if it is not a class."""
    if not isinstance(name, str) or not _CLASS.fullmatch(name):
        draft.leave_out(where, f"{_short(name)} is not the name of a class of Ruby")
        return None
    given = arguments if isinstance(arguments, list) else [] if arguments is None else [arguments]
    if has_unknown(given):
        draft.leave_out(where, "an argument is known only when Ruby runs")
        return None
    call = f"{name}.perform_now" if is_active_job else f"{name}.new.perform"
    if not given:
        return ["bin/rails", "runner", call]
    if is_active_job and isinstance(given[-1], Mapping):
        code = f"*a, k = JSON.parse(ARGV[0], symbolize_names: true); {call}(*a, **k)"
    else:
        code = f"{call}(*JSON.parse(ARGV[0]))"
    return ["bin/rails", "runner", code, json.dumps(given)]


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return repr(text if len(text) <= 80 else text[:79] + "…")
