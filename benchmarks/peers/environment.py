"""The virtual environment in which the peers are, of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.peers.peers import REQUIREMENTS


def install() -> Path | None:
    """The environment with the peers in it; None where PyPI cannot be reached."""
    environment = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fusiond-benchmarks" / "peers"
    if not (environment / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        pip = [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
        if subprocess.run(pip, check=False).returncode:
            return None
        (environment / "installed").touch()
    return environment


def version(environment: Path, package: str) -> str:
    """Of a distribution that is installed there."""
    ask = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return subprocess.check_output([environment / "bin" / "python", "-c", ask], text=True).strip()
