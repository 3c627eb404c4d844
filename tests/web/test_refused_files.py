"""Problems in their places in the files."""

import os

from fusiond.config.load import load
from fusiond.web.filters import underlined
from fusiond.web.pages.configuration_pages import _problems
from fusiond.web.pages.refused_files import placed


def problems_of(path):
    """What `load` finds, as a daemon says it."""
    return _problems([problem.to_dict() for problem in load(path, environ=os.environ, elsewhere=True).problems])


def test_each_problem_stands_at_its_line_of_its_file(tmp_path):
    """Of an included file, too; the text that it is about is marked, and secrets are hidden."""
    path = tmp_path / "fusion.yaml"
    path.write_text("version: 1\ninclude: [more.yaml]\nworkers: {m: {environment: {KEY: hunter2}}}\ncolour: red\n")
    (tmp_path / "more.yaml").write_text("tasks:\n  send:\n    run: shop.send\n    timuot: 5s\n    queue: fast\n")
    files, others = placed(problems_of(path))
    assert others == []
    main, more = sorted(files, key=lambda file: len(file.lines))
    assert (main.name, more.name) == (str(path), str(tmp_path / "more.yaml"))
    assert [[line.number for line in file.lines if line.problems] for file in (main, more)] == [[4], [4, 5]]
    assert [line.number for line in main.lines] == [1, 2, 3, 4, 5]
    assert "hunter2" not in str(files)
    assert str(underlined(main.lines[3])) == "<mark>colour</mark>: red"


def test_a_problem_whose_line_is_another_one_now_has_no_place(tmp_path):
    """Nor has one of the whole file, or of a file that is gone."""
    path = tmp_path / "fusion.yaml"
    path.write_text("version: 1\ncolour: red\n")
    found = problems_of(path)
    path.write_text("version: 1\nqueues: {}\n")
    assert placed(found) == ([], found)
    path.unlink()
    assert placed(found) == ([], found)
    path.write_text("")
    assert placed(problems_of(tmp_path / "none.yaml"))[1][0].code == "unreadable"


def test_what_does_not_parse_is_shown_too(tmp_path):
    """The line at which the text ends to be YAML."""
    path = tmp_path / "fusion.yaml"
    path.write_text('version: 1\ntasks: {a: {run: "x.y}}\n')
    (file,), others = placed(problems_of(path))
    assert (others, file.length, sum(len(line.problems) for line in file.lines)) == ([], 3, 1)


def test_of_a_long_file_what_is_near_is_shown(tmp_path):
    """40 lines around each problem."""
    path = tmp_path / "fusion.yaml"
    path.write_text("version: 1\n" + "# more\n" * 2000 + "colour: red\n" + "# more\n" * 2000)
    (file,), _ = placed(problems_of(path))
    assert [line.number for line in file.lines] == list(range(2002 - 40, 2002 + 41))
