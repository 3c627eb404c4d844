import os
import subprocess

import pytest

from fusiond.importing import crontab
from fusiond.importing.draft import Draft
from fusiond.importing.input_files import ImportOptions, SourceText
from tests.support.imported_file import DATA, import_files, import_text


def commands(found):
    """Entry → what its shell runs."""
    return {name: found.words(name)[2] for name in found.config.cron}


@pytest.mark.parametrize("path", sorted(DATA.glob("*.crontab")), ids=lambda path: path.name)
def test_each_crontab_becomes_a_file_that_loads(path):
    """Those after public projects; each line is an entry, or a comment with the reason."""
    found = import_files("crontab", path)
    lines = [line for line in path.read_text().splitlines() if line[:1] in tuple("0123456789*@")]
    assert len(found.config.cron) + found.comments.count("no schedule for the start") == len(lines)
    # A day's timeout is longer than a shutdown waits, which a person is to decide on.
    assert set(found.warnings) <= {"short-drain"}


def test_a_users_crontab_keeps_schedules_and_variables():
    """Each command runs by its shell, in a group that has the variables."""
    found = import_files("crontab", DATA / "user.crontab")
    assert found.config.cron["update-catalogue.pl"].schedule == "10 3 * * *"
    assert found.config.cron["update-catalogue.pl"].overlap == "allow"
    assert commands(found)["worker"] == "cd; env QUIET=1 $RUN $LIBRARY/scripts/worker Covers::Scale"
    assert found.config.workers["cron"].environment["LIBRARY"] == "/home/books/library"
    assert "$RUN $LIBRARY/scripts/start-server': there is no schedule for the start of the machine" in found.comments


@pytest.mark.parametrize(
    ("name", "user", "is_system"),
    [("cron.d", "root", True), ("mirror", "source-mirror", None), ("system", "root", None), ("bash", None, None)],
)
def test_a_system_crontab_names_users(name, user, is_system):
    """The user column is found, by the heading or by `--system`, and is not part of the command."""
    found = import_files("crontab", DATA / f"{name}.crontab", has_users=is_system)
    assert {group.user for group in found.config.workers.values()} == {user}
    assert not any(text.startswith(f"cd; {user} ") for text in commands(found).values())


def test_the_imported_command_does_what_cron_would(tmp_path):
    """It starts in the home directory with the variables, and reads what follows the %."""
    text = "A=1\n* * * * * pwd; echo $A \\%d; cat %one%two\n"
    found = import_text("crontab", tmp_path, text)
    (entry,) = found.config.cron
    environment = {**os.environ, **found.config.workers["cron"].environment, "HOME": str(tmp_path)}
    done = subprocess.run(found.words(entry), env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}\n1 %d\none\ntwo\n"


def test_each_command_is_a_task_that_tells_what_the_comment_above_it_says(tmp_path):
    """The same command is one task; no text of a shell is a placeholder. cron's defaults stand once."""
    text = (
        "# |  |  .---- day\n# *  *  *  *  * command to be executed\n# m h dom mon dow CMD\n"
        "# Dumps the shop\n#0 3 * * * old\n0 4 * * * dump $(date) $$\n\n"
        "5 4 * * * dump other\n# Dumps the shop\n0 16 * * * dump $(date) $$\n"
    )
    found = import_text("crontab", tmp_path, text)
    first, second = found.config.tasks.values()
    assert (first.description, first.retry, first.timeout.soft) == ("Dumps the shop", "none", 86400)
    assert second.description is None
    assert commands(found) == {
        "dump": "cd; dump $(date) $$", "dump_2": "cd; dump other", "dump_3": "cd; dump $(date) $$",
    }  # fmt: skip
    assert "dump $$(date)" in found.text
    assert found.text.count("retry: none, timeout: 1d") == found.text.count("retry") == 1


@pytest.mark.parametrize(
    ("text", "user", "command"),
    [
        ("*/5 * * * * git -C /srv/app pull\n", None, "cd; git -C /srv/app pull"),
        ("0 4 * * * root thing\n", None, "cd; root thing"),
        ("0 4 * * * www-data\t[ -x /a ] && /a\n", None, "cd; www-data\t[ -x /a ] && /a"),
        ("# m h dom mon dow   username command\n0 4 * * * shopper /usr/bin/thing\n", "shopper", "cd; /usr/bin/thing"),
        ("# * * * * *  user-name command to be executed\n@daily ada thing\n", "ada", "cd; thing"),
    ],
)
def test_a_word_is_a_user_only_where_the_file_says_so(tmp_path, text, user, command):
    """An account of this machine has a name that is a program's, too."""
    found = import_text("crontab", tmp_path, text)
    assert list(commands(found).values()) == [command]
    assert [group.user for group in found.config.workers.values()] == [user]
    assert ("import the file with --system" in found.comments) == ("root" in command or "www-data" in command)


@pytest.mark.parametrize("name", ["/etc/crontab", "/etc/cron.d/shop"])
def test_the_files_of_the_system_name_users(name):
    """By their place."""
    draft = Draft()
    crontab.read([SourceText(name, "0 4 * * * git pull\n")], draft, ImportOptions())
    assert draft.sections["tasks"]["pull"].values["queue"] == "cron_git"


def test_six_fields_are_left_out(tmp_path):
    """The sixth would be the program: of `*`, the first file of the home directory."""
    text = "*/6 * * * * * echo hi ; sleep 1\n0 0 12 * * ? noon\n0 30 4 * * MON-FRI dump\n1 2 * * * 7z a b\n"
    found = import_text("crontab", tmp_path, text)
    assert commands(found) == {"7z": "cd; 7z a b"}
    assert found.comments.count("it has six fields before the command, and cron reads five") == 3


def test_a_command_with_sudo_says_what_to_do(tmp_path):
    """A job of an ordinary user gets no further rights."""
    found = import_text("crontab", tmp_path, "1 2 * * * cd /srv && sudo -u ada sync\n3 4 * * * pseudo run\n")
    assert found.comments.count("sudo and su do not work in jobs: remove them, and name that user as `user`") == 1


def test_assignments_hold_for_the_lines_below(tmp_path):
    """Another value makes another group; cron's own variables become keys or comments."""
    text = (
        "CRON_TZ=Europe/Berlin\nRANDOM_DELAY=3\nMAILTO=ops@example.com\nA=1\n1 2 * * * first\n"
        "A=2\nAPI_TOKEN=xyz\n@daily second\nSHELL=/usr/bin/python3\n@every_minute print(1)\n@every 1h30m print(2)\n"
    )
    found = import_text("crontab", tmp_path, text)
    first, second, third, fourth = found.config.cron.values()
    *_, third_name, fourth_name = found.config.cron
    assert (first.timezone, first.jitter, second.schedule, third.every) == ("Europe/Berlin", 180, "@daily", 60)
    assert [group.environment["A"] for group in found.config.workers.values()] == ["1", "2"]
    assert (fourth.every, found.words(fourth_name)[2]) == (5400, "print(2)")
    assert found.words(third_name) == ["/usr/bin/python3", "-c", "print(1)"]
    assert "MAILTO=ops@example.com: no mail is sent" in found.comments
    assert "API_TOKEN: it seems to be a secret" in found.comments
    assert "xyz" not in found.text


def test_what_cannot_be_carried_over_is_a_comment(tmp_path):
    """With the loader's own reason where it is the loader that refuses."""
    text = "61 * * * * never\n@fortnightly nor\nnonsense\n0~30 9 * * * random\n0 4 */2 * 1 both\n5 5 * * * fine\n"
    found = import_text("crontab", tmp_path, text)
    assert set(found.config.cron) == {"fine", "both"}
    assert "'61 * * * *' is not a cron text" in found.comments
    assert "'@fortnightly' is not a form of schedule" in found.comments
    assert "'nonsense': neither a schedule with a command nor an assignment" in found.comments
    assert "cron runs this when both day fields match" in found.comments


def test_options_say_what_the_file_does_not(tmp_path):
    """The zone of its machine, and that its lines name a user."""
    found = import_text("crontab", tmp_path, "1 2 * * * ada sync\n", timezone="Asia/Tokyo", has_users=True)
    assert found.config.cron["sync"].timezone == "Asia/Tokyo"
    assert found.config.workers["cron_ada"].user == "ada"


def test_several_files_become_one():
    """Equal entries are one, groups are shared, and names that collide get a number."""
    paths = [DATA / "user.crontab", DATA / "bash.crontab", DATA / "user.crontab"]
    found = import_files("crontab", *paths)
    assert len(found.config.cron) == 8
    assert list(found.config.workers) == ["cron", "cron_2"]
