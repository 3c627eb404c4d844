"""The only room that reads YAML: a file goes in, a Config or its problems come out."""

from __future__ import annotations

from pathlib import Path


def starter_text() -> str:
    """The commented file that `fusiond init` writes."""
    return (Path(__file__).parent / "starter.yaml").read_text(encoding="utf-8")
