"""
Files that ship with fusiond beside its code: `schemas` and `systemd`.

A wheel has these directories inside the package, a checkout beside it. Standard library only.
"""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path


def shipped(path: str) -> Traversable:
    """
    The file of this path, such as `schemas/fusion.schema.json`.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    for root in (files("fusiond"), Path(__file__).parent.parent):
        if (found := root.joinpath(*path.split("/"))).is_file():
            return found
    raise FileNotFoundError(f"{path} is missing from the installation of fusiond; install it again")
