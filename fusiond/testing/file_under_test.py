"""The user's fusion.yaml, as the tests use it."""

from __future__ import annotations

import os

from fusiond.config.lint.reports import as_text
from fusiond.config.load import load
from fusiond.config.model import Config
from fusiond.errors import ConfigError
from fusiond.paths import find_config


def read(file: str | os.PathLike[str] | None) -> Config:
    """
    The configuration of the file; None: $FUSION_CONFIG, else ./fusion.yaml.

    What this machine lacks, such as users and directories of production, does not matter. Raises ConfigError.
    """
    path = find_config(file)
    if not path.exists():
        raise ConfigError(f"{path} does not exist; name the fusion.yaml that the tests are to use")
    loaded = load(path, environ=os.environ, elsewhere=True)
    if loaded.config is None:
        raise ConfigError(as_text([problem for problem in loaded.problems if problem.is_error]))
    return loaded.config
