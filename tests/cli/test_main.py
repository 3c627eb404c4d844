import subprocess
import sys
from pathlib import Path

import pytest

from fusiond import __version__, errors
from fusiond.broker.keys import LAYOUT
from fusiond.cli import FAMILIES, main, parser
from fusiond.cli.exits import UsageError, status_of
from fusiond.cli.guesses import GUESSES
from tests.support.fusiond_command import fusiond


def test_help_loads_nothing_heavy():
    """`fusiond --help` does not load Redis, YAML, schemas, supervisor or asyncio, which take most of a start."""
    script = (
        "import sys, fusiond.cli; fusiond.cli.main(['--help']); heavy = {'redis', 'yaml', 'jsonschema', 'supervisor', "
        "'asyncio', 'croniter', 'argcomplete'}; print(heavy & {*sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "set()"


@pytest.mark.parametrize(
    ("line", "task", "words"),
    [
        ("send a b --in 5m", "send", ["a", "b"]),
        ("--in 5m send a b", "send", ["a", "b"]),
        ("send --in 5m a b", "send", ["a", "b"]),
        ("send a --in 5m b", "send", ["a", "b"]),
        ("send -5 --in 5m -1.5", "send", ["-5", "-1.5"]),
        ("send --in 5m -- -x --in --", "send", ["-x", "--in", "--"]),
        ("--in 5m -- -send -x", "-send", ["-x"]),
        ("- --in 5m", "-", []),
    ],
)
def test_options_stand_anywhere_and_dashes_end_them(line, task, words):
    """Before, between and behind the words; what follows -- is not an option, whatever it looks like."""
    options = parser().parse_args(["enqueue", *line.split()])
    assert (options.delay, options.task, options.words) == (300, task, words)


@pytest.mark.parametrize(
    ("words", "status"), [(["--version"], 0), (["--help"], 0), ([], 2), (["fly"], 2), (["job"], 2), (["call"], 2)]
)
def test_usage(tmp_path, words, status):
    """Help and version are fine; what is not a command is status 2."""
    assert fusiond(*words, cwd=tmp_path).status == status


def test_a_version_has_one_layout(capsys):
    """`--version` names both. Who changes the layout has to write so under a version that has not been released."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fusiond {__version__} (layout {LAYOUT})\n"
    newest = (Path(__file__).parents[2] / "CHANGELOG.md").read_text().partition("\n## [")[2].partition("\n## [")[0]
    assert newest.startswith(f"{__version__}]")
    assert f"the layout of its keys in Redis is {LAYOUT}." in newest


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["enqueue", "send_otp", "--nope"], "usage: fusiond enqueue "),
        (["requeue", "--all", "--nope"], "usage: fusiond requeue "),
        (["job", "list", "--nope"], "usage: fusiond job list "),
        (["job", "--nope", "list"], "usage: fusiond job "),
        (["--nope", "status"], "usage: fusiond "),
    ],
)
def test_an_unknown_option_is_told_with_the_usage_of_its_command(capsys, words, usage):
    """Status 2; the usage of the whole command line would not help."""
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith(usage)
    assert "unrecognized arguments: --" in said


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        ("stauts", "no 'stauts' here; did you mean stats, status, task?"),
        ("qeue list", "did you mean queue, requeue, enqueue?"),
        ("job lsit", "did you mean list, logs?"),
        ("job list --status faild", "did you mean failed?"),
        ("xyzzy", "no 'xyzzy' here; --help lists what there is"),
    ],
)
def test_the_nearest_words_are_named(line, nearest, capsys):
    """Not all that there are."""
    assert main(line.split()) == 2
    said = capsys.readouterr().err
    assert nearest in said
    assert "broken" not in said


def test_what_people_type_first_works(desk):
    """And the command's own name is said."""
    name = desk.enqueued("send")
    for words, note in (
        (("pause", "default"), "`pause` is `fusiond suspend`"),
        (("kill", name), "`kill` is `fusiond job cancel`"),
        (("retry", name), "`retry` is `fusiond requeue`"),
        (("queues",), "`queues` is `fusiond queue list`"),
        (("job", "requeue", name), "`job requeue` is `fusiond requeue`"),
    ):
        done = desk.fusiond(*words)
        assert (done.status, note in done.err) == (0, True), words
    assert desk.run(desk.verbs.counts("default")).suspended_by_operator


def test_each_guess_is_a_command_and_none_hides_one():
    """With a word below it, too."""
    assert not GUESSES.keys() & {command for its in FAMILIES.values() for command in its}
    for command in {*GUESSES.values()}:
        assert main([*command.split(), "--help"]) == 0


@pytest.mark.parametrize(
    "line",
    [
        *(f"reload --timeout {number}" for number in ("0", "-1", "nan", "inf", "1e10")),
        *(f"rollback --timeout {number}" for number in ("0", "-1", "nan", "inf", "1e10")),
        *(f"job list --limit {number}" for number in ("0", "-1", "1.5", "1000000000")),
        *(f"cron explain nightly --next {number}" for number in ("0", "-3")),
        *(f"enqueue send --wait {number}" for number in ("-5", "nan")),
    ],
)
def test_a_number_that_means_nothing_is_refused_before_anything_is_asked_for(capsys, line):
    """Status 2 and what the number may be: not a default in its place, and nothing is done meanwhile."""
    assert main(line.split()) == 2
    *_, option, number = line.split()
    said = capsys.readouterr().err
    assert f"argument {option}" in said
    assert f": {number!r} is not a " in said


@pytest.mark.parametrize(
    "command", [["run"], ["reload"], ["status"], ["enqueue", "hello"], ["explain", "task", "hello"]]
)
def test_an_instance_is_short_for_its_file(command, capsys):
    """With any command that takes -c; not both, and no name that would lead elsewhere."""
    assert parser().parse_args([*command, "--instance", "mail"]).config == "/etc/fusion-mail.yaml"
    for wrong in (["--instance", "../mail"], ["--instance", "mail", "-c", "fusion.yaml"]):
        with pytest.raises(SystemExit, match="2"):
            parser().parse_args([*command, *wrong])
        assert "--instance" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.BrokerUnavailable("x"), 3),
        (errors.BrokerUnfit("x"), 3),
        (errors.ControlError("x"), 3),
        (errors.ResultTimeout("x"), 124),
        (errors.QueueFull("x"), 1),
        (errors.JobFailed("TIMEOUT", "", "x"), 1),
        (errors.ConfigError("x"), 1),
        (UsageError("x"), 2),
    ],
)
def test_each_kind_of_error_has_its_status(error, status):
    """A script can tell refused from out of reach from timed out."""
    assert status_of(error) == status


@pytest.mark.parametrize(
    ("command", "status"), [("run", 78), ("dev", 78), ("reload", 2), ("validate", 2), ("job list", 2)]
)
def test_the_status_where_there_is_no_file(tmp_path, command, status):
    """Whoever starts the daemon does not start it again; else the command line is at fault. The sentence names -c."""
    done = fusiond(*command.split(), cwd=tmp_path)
    assert (done.status, done.err.count("\n"), "no file" in done.err, "-c" in done.err) == (status, 1, True, True)
    done = fusiond(*command.split(), *(["-c"] if command != "validate" else []), "no.yaml", cwd=tmp_path)
    assert (done.status, "no.yaml" in done.err + done.out) == (status, True)


@pytest.mark.parametrize("command", ["job list", "fsck --json"])
def test_a_broker_out_of_reach_is_one_sentence_and_status_3(tmp_path, command):
    """No traceback where Redis is not, and no document that looks complete."""
    done = fusiond(*command.split(), "--url", f"unix://{tmp_path}/nothing.sock", cwd=tmp_path)
    assert (done.status, done.out, done.err.count("\n")) == (3, "", 1)
    assert "cannot be reached" in done.err


def test_a_broker_of_the_daemons_own_says_what_starts_it(tmp_path):
    """Where the file says that the daemon runs Redis, and no daemon runs."""
    (tmp_path / "fusion.yaml").write_text(f"version: 1\nruntime_directory: {tmp_path}/run\n")
    done = fusiond("job", "list", cwd=tmp_path)
    assert (done.status, done.err.count("\n")) == (3, 1)
    assert "redis.sock (embedded) cannot be reached" in done.err
    assert done.err.endswith("is it running? `fusiond run` starts this server together with the daemon\n")
