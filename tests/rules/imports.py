"""What only loading the task code tells: `fusiond validate --imports`."""

from __future__ import annotations

from typing import Final

from tests.rules.rule import Rule

_GROUP: Final = "workers: {m: {directory: .}}\n"
_MODULE: Final = "def send(to, *, code=0): ...\nLIMIT = 5\n"


def _rule(code: str, sentence: str, bad: str, good: str, module: str = _MODULE) -> Rule:
    """A rule about a module `shop` beside the file."""
    return Rule(code, "error", sentence, bad + _GROUP, good + _GROUP, files={"shop.py": module}, needs="imports")


RULES = (
    _rule(
        "missing-module",
        "a `run` whose module there is not",
        "tasks: {a: {run: «shpo.send»}}\n",
        "tasks: {a: {run: shop.send}}\n",
    ),
    _rule(
        "missing-attribute",
        "a `run` whose module has no such name",
        "tasks: {a: {run: «shop.sned»}}\n",
        "tasks: {a: {run: shop.send}}\n",
    ),
    _rule(
        "not-callable",
        "a `run` that is not a function",
        "tasks: {a: {run: «shop.LIMIT»}}\n",
        "tasks: {a: {run: shop.send}}\n",
    ),
    _rule(
        "broken-module",
        "a `run` whose module fails to import; its traceback is shown",
        "tasks: {a: {run: «shop.send»}}\n",
        "tasks: {a: {run: json.dumps}}\n",
        "import no_such_module\n",
    ),
    _rule(
        "import-timeout",
        "a `run` whose module does not come to an end of its import",
        "tasks: {a: {run: «shop.send»}}\n",
        "tasks: {a: {run: json.dumps}}\n",
        "import time\ntime.sleep(1000)\n",
    ),
    _rule(
        "import-crash",
        "a `run` whose import ends the process",
        "tasks: {a: {run: «shop.send»}}\n",
        "tasks: {a: {run: json.dumps}}\n",
        "import os\nos._exit(3)\n",
    ),
    _rule(
        "bad-arguments",
        "arguments of a cron entry or of a step, or a `pass_job`, that the function or command does not take",
        "tasks: {a: {run: shop.send}}\ncron: {c: {task: a, every: 5m, args: [x], kwargs: {«cod»: 1}}}\n",
        "tasks: {a: {run: shop.send}}\ncron: {c: {task: a, every: 5m, args: [x], kwargs: {code: 1}}}\n",
    ),
    _rule(
        "not-an-exception",
        "a name in a retry policy whose module has no such exception",
        "tasks: {a: {run: shop.send, retry: p}}\nretry_policies: {p: {retry_on: [«shop.Eror»]}}\n",
        "tasks: {a: {run: shop.send, retry: p}}\nretry_policies: {p: {retry_on: [shop.Error]}}\n",
        "def send(): ...\nclass Error(Exception): ...\n",
    ),
    Rule(
        "namesake-exception",
        "warning",
        "a built-in exception's name in a retry policy, while a package that is loaded has another one of that name",
        "tasks: {a: {run: shop.send, retry: p}}\nretry_policies: {p: {retry_on: [«ConnectionError»]}}\n" + _GROUP,
        "tasks: {a: {run: shop.send, retry: p}}\nretry_policies: {p: {retry_on: [shop.ConnectionError]}}\n" + _GROUP,
        files={"shop.py": "def send(): ...\nclass ConnectionError(Exception): ...\n"},
        needs="imports",
    ),
    Rule(
        "imports-unchecked",
        "error",
        "a group whose interpreter could not be started, so that nothing is known of its tasks",
        "tasks: {a: {run: json.dumps}}\nworkers: {m: {python: «/bin/false»}}\n",
        "tasks: {a: {run: json.dumps}}\nworkers: {m: {}}\n",
        needs="imports",
    ),
)
