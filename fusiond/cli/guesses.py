"""Words that people try first, of other job runners and of systemd; and what is near to a word that is no command."""

from __future__ import annotations

import re
from typing import Final

#: what people type → the command that they mean
GUESSES: Final = {
    "pause": "suspend",
    "unpause": "resume",
    "continue": "resume",
    "retry": "requeue",
    "rerun": "requeue",
    "clear": "queue purge",
    "purge": "queue purge",
    "queues": "queue list",
    "jobs": "job list",
    "ls": "job list",
    "list": "job list",
    "show": "job show",
    "describe": "job show",
    "restart": "group restart",
    "inspect active": "ps",
    "inspect": "job show",
    "errors": "failures",
    "failed": "failures",
    "logs": "job logs",
    "log": "job logs",
    "tail": "job logs",
    "cancel": "job cancel",
    "kill": "job cancel",
    "delete": "job delete",
    "rm": "job delete",
    "workers": "status -W",
    "schedule": "cron list",
    "flows": "flow list",
    "trigger": "cron run",
    "submit": "enqueue",
    "add": "enqueue",
    "check": "validate",
    "lint": "validate",
    "diff": "plan",
    "apply": "reload",
    "start": "run",
    "job requeue": "requeue",
    "job retry": "requeue",
    "job kill": "job cancel",
    "job rm": "job delete",
    "queue suspend": "suspend",
    "queue pause": "suspend",
    "queue resume": "resume",
    "queue show": "queue list",
    "task pause": "task suspend",
    "cron pause": "cron suspend",
    "cron trigger": "cron run",
    "cron show": "cron explain",
    "flow start": "flow run",
    "flow pause": "flow suspend",
    "flow retry": "flow requeue",
    "flow status": "flow show",
}
#: suggestions for one word
_MOST: Final = 3
_CHOICE: Final = re.compile(r"invalid choice: '(?P<word>[^']*)' \(choose from (?P<choices>.*)\)", re.DOTALL)


def meant(words: list[str], commands: set[str]) -> tuple[list[str], str]:
    """The words with the command that is meant, and a note that names it; "": they are as they were."""
    for length in (2, 1):
        said = " ".join(words[:length])
        if said in GUESSES and said not in commands:
            command = GUESSES[said]
            return [*command.split(), *words[length:]], f"note: `{said}` is `fusiond {command}` here"
    return words, ""


def suggestion(message: str) -> str:
    """Argparse's message about a word that is no command, with the nearest ones in place of them all."""
    found = _CHOICE.search(message)
    if not found:
        return message
    from difflib import get_close_matches

    word, choices = found["word"], re.findall(r"[\w-]+", found["choices"])
    near = get_close_matches(word, choices, _MOST, 0.5)
    if near:
        return f"no {word!r} here; did you mean {', '.join(near)}?"
    return f"no {word!r} here; --help lists what there is"
