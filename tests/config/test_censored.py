"""The file as it is written, without secrets: what the dashboard shows of a file that may not even be YAML."""

import pytest

from fusiond.config.secrets import censored

SHOWN = """\
version: 1
broker: {url: "redis://u@h/0", password_file: /run/x}
tasks:
  reset_password: {run: a.b, timeut: 5s, queue: nowhere}
  send_token:
    run: x.y
workers:
  m: {directory: /srv, processes: 3}
cron:
  x: {task: y, schedule: "* * * * *", args: [a, 3], kwargs: {token_file: /run/y, name: "x, y"}}
"""


def test_what_is_no_secret_is_shown_as_it_is():
    """Tasks that are called like secrets, and paths of their files, too."""
    assert censored(SHOWN.splitlines()) == SHOWN.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        'broker: {url: "redis://u:hunter2@h/0"}',
        "  b: {run: c, kwargs: {api_key: hunter2, name: x}}",
        '  b: {run: c, kwargs: {token: "a, hunter2", name: x}}',
        "  b: {run: c, kwargs: {token: 'not closed, hunter2, name: x}",
        "  b: {run: c, kwargs: {tokens: [hunter2, hunter2], name: x}}",
        "environment:\n  A: hunter2\n  B: |\n    hunter2\n    hunter2: x\n\n    hunter2",
        "environment: {A: hunter2,\n  B: hunter2}",
        'n: {environment: {A: "}", B: hunter2}}',
        "n: {environment: {A: x,\n    B: hunter2}}",
        "password: >\n  hunter2\n\n  hunter2",
        'password: "x\n  hunter2"',
        "tokens:\n- hunter2\n- hunter2",
        "- token: hunter2\n- password:\n    hunter2",
        '"secret": hunter2',
        "a: {secret: [kwargs.x], run: y}\nb: {args: [1, hunter2]}\nc:\n  args:\n  - hunter2",
        "# password: hunter2",
        "kwargs:\n  cert: |\n    -----BEGIN RSA PRIVATE KEY-----\n    hunter2\n    -----END RSA PRIVATE KEY-----",
    ],
)
def test_what_may_be_a_secret_is_not_shown(text):
    """In maps and blocks, in quotes that are not closed, in lists, in comments; the line after it is there again."""
    shown = censored([*text.split("\n"), "other: value"])
    assert "hunter2" not in "\n".join(shown)
    assert len(shown) == text.count("\n") + 2
    assert shown[-1] == "other: value"
