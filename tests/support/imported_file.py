"""A file of another job runner, imported and loaded again."""

from dataclasses import dataclass
from pathlib import Path

from fusiond.config.load import load
from fusiond.config.model import Config
from fusiond.config.model.commands import parts_of
from fusiond.importing.finished_file import imported
from fusiond.importing.input_files import ImportOptions

DATA = Path(__file__).parents[1] / "importing" / "data"


@dataclass(frozen=True)
class Imported:
    """What `fusiond import` printed, and what the loader made of it."""

    text: str
    config: Config
    warnings: list[str]

    def words(self, entry: str) -> list[str]:
        """The words with which the program of a cron entry is started."""
        task = self.config.tasks[self.config.cron[entry].task]
        return [part for word in task.command for part in parts_of(word)]

    @property
    def comments(self) -> str:
        """All comments, on one line."""
        lines = (line.strip() for line in self.text.splitlines())
        return " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))


def import_files(runner, *paths, environ=None, **options) -> Imported:
    """Import files, and load the result with the loader of `fusiond validate`."""
    text = imported(runner, list(map(str, paths)), ImportOptions(**options))
    found = load("fusion.yaml", environ=environ or {}, data=text.encode(), elsewhere=True)
    assert found.config is not None, "\n".join(map(str, found.problems)) + "\n" + text
    return Imported(text, found.config, [problem.code for problem in found.problems])


def import_text(runner, tmp_path, text, **options) -> Imported:
    """The same of a file with this text."""
    path = tmp_path / "given"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_files(runner, path, **options)


def import_application(runner, directory, modules, *names, **options) -> Imported:
    """Write modules, as path → text, and have the runner itself load these names."""
    for path, text in modules.items():
        (directory / path).parent.mkdir(exist_ok=True)
        (directory / path).write_text(text)
    return import_files(runner, *names, directory=str(directory), **options)
