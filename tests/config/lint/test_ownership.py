"""Who else could change what the daemon does."""

import os
import stat

import pytest

from fusiond.config.lint.machine import weakness
from fusiond.config.load import load

ROOT, ADA, BOB, STAFF = 0, 1000, 1001, 50


@pytest.mark.parametrize(
    ("mode", "owner", "group", "user", "safe"),
    [
        (0o644, ROOT, ROOT, ROOT, True), (0o664, ROOT, ROOT, ROOT, True), (0o664, ROOT, STAFF, ROOT, False),
        (0o666, ROOT, ROOT, ROOT, False), (0o600, ADA, ADA, ROOT, False),
        (0o644, ADA, ADA, ADA, True), (0o664, ADA, STAFF, ADA, True), (0o644, ROOT, ROOT, ADA, True),
        (0o646, ADA, ADA, ADA, False), (0o644, BOB, BOB, ADA, False),
    ],
)  # fmt: skip
def test_root_trusts_root_alone_and_a_person_itself_too(mode, owner, group, user, safe):
    """A file that another can write is unsafe; its group counts where root would obey it."""
    assert (weakness(stat.S_IFREG | mode, owner, group, user) == "") == safe


def test_the_remedy_is_a_command(tmp_path):
    """The includes count as well, and root's daemon refuses where a linter warns."""
    main, dropped_in = tmp_path / "fusion.yaml", tmp_path / "b c.yaml"
    main.write_text("version: 1\ninclude: ['b c.yaml']\n")
    dropped_in.write_text("queues: {default: {}}\n")
    main.chmod(0o644)
    dropped_in.chmod(0o666)
    (problem,) = load(main, environ={}).problems
    assert (problem.code, problem.severity, problem.file) == ("unsafe-file", "warning", str(dropped_in))
    assert problem.remedy == f"chmod go-w '{dropped_in}'"
    (problem,) = load(main, environ={}, to_run=True).problems
    assert problem.severity == ("error" if os.geteuid() == 0 else "warning")
