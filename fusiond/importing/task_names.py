"""The names of tasks in the source of an application, which is read and not run."""

import ast
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Final

from fusiond.importing.draft import Draft
from fusiond.importing.input_files import ImportOptions, ImportRefused, SourceText

#: what makes a function a task: `@app.task`, `@shared_task` and `@periodic_task` of Celery, `@job` of RQ
_DECORATORS: Final = {"celery": ("task", "shared_task", "periodic_task"), "rq": ("job",)}


def read(runner: str, inputs: Sequence[SourceText], draft: Draft, options: ImportOptions) -> None:
    """Put each task into the draft, under the name that it has there."""
    draft.remark("the source was read and not run: queues, limits, retries and schedules are not known.")
    for each in inputs:
        path = os.path.relpath(each.name, options.directory).removesuffix(".py").removesuffix("/__init__")
        module = path.replace("/", ".").lstrip(".")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "invalid escape sequence" and the like
                found = list(_tasks(ast.parse(each.text), _DECORATORS[runner]))
        except SyntaxError as error:
            place = f", line {error.lineno}" if error.lineno else ""
            raise ImportRefused(f"{each.name}{place}: this is not Python: {error.msg}") from error
        except (RecursionError, MemoryError) as error:
            raise ImportRefused(f"{each.name} is nested too deeply to be read") from error
        for function, name in found:
            draft.put("tasks", name or f"{module}.{function}", {"run": f"{module}.{function}"})
        if not found:
            draft.leave_out(each.name, "no function in it has a decorator of a task")


def _tasks(tree: ast.Module, decorators: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each function of the module that is a task, and the name that its decorator says."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for each in node.decorator_list:
            called = each.func if isinstance(each, ast.Call) else each
            if re.split(r"\W", ast.unparse(called))[-1] in decorators:
                words = {word.arg: word.value for word in each.keywords} if isinstance(each, ast.Call) else {}
                name = words.get("name")
                yield node.name, str(name.value) if isinstance(name, ast.Constant) else None
