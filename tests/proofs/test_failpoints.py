"""Failpoints: each step that has one is there, and every interpreter can load them."""

import ast
import importlib
import sys
import types
from pathlib import Path

import pytest

from tests import failpoints
from tests.failpoints import STEPS


def place(step):
    """What a step's name stands for in the code."""
    found = importlib.import_module(f"fusiond.{step.module}")
    for part in step.name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", STEPS)
def test_each_step_is_a_function_that_is_there(name):
    """A step that was renamed would never fire again."""
    assert isinstance(place(STEPS[name]), types.FunctionType)


def test_the_file_runs_under_another_interpreter():
    """A fork server has it under the application's own Python, from 3.9 up, beside nothing but the standard library."""
    tree = ast.parse(Path(failpoints.__file__).read_text(), feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names
