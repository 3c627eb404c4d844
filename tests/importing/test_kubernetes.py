import pytest

from fusiond.importing.input_files import ImportRefused
from tests.support.imported_file import DATA, import_files, import_text


@pytest.mark.parametrize("path", sorted(DATA.glob("*.cronjob.yaml")), ids=lambda path: path.name)
def test_each_manifest_becomes_a_file_that_loads(path):
    """Those after public projects."""
    found = import_files("kubernetes", path)
    assert found.config.cron
    assert "there are no containers: the program must be installed on the host" in found.comments


def test_what_a_cronjob_says_is_kept():
    """Schedule, zone, policy, deadlines, retries, variables, command."""
    found = import_files("kubernetes", DATA / "cleaner.cronjob.yaml")
    entry, task = found.config.cron["build-cleaner"], found.config.tasks["build-cleaner"]
    assert (entry.schedule, entry.timezone, entry.overlap, entry.missed) == (
        "30 4 * * 0", "Europe/Madrid", "replace", "last",
    )  # fmt: skip
    assert (task.timeout.soft, found.config.retry_policies[task.retry].max_attempts) == (900, 3)
    *first, script = found.words("build-cleaner")
    assert first == ["env", "KEEP=3", "/bin/bash", "-c"]
    # Kubernetes replaces $(KEEP), and the shell what else there is
    assert "head -n -3);" in script
    assert 'echo "$(date -Is) ${BUILD} is deleted"' in script
    assert "env API_TOKEN: it seems to be a secret" in found.comments
    assert "abcdef" not in found.text
    assert "env NODE: its value is elsewhere" in found.comments


def test_a_deadline_and_a_forbidden_overlap():
    """As Kubernetes: the last missed start runs, unless it is too late."""
    entry = import_files("kubernetes", DATA / "backup.cronjob.yaml").config.cron["atlas-backup"]
    assert (entry.overlap, entry.missed, entry.starting_deadline) == ("skip", "last", 200)


def test_lists_and_several_documents(tmp_path):
    """Each CronJob is found; what is none, or has no command, is a comment."""
    found = import_files("kubernetes", DATA / "hello.cronjob.yaml")
    assert set(found.config.cron) == {"farewell", "greeting"}
    assert (found.config.cron["farewell"].schedule, found.config.cron["farewell"].timezone) == (
        "0 18 * * *", "Asia/Tokyo",
    )  # fmt: skip
    assert found.config.tasks["greeting"].command == ("/bin/sh", "-c", "date; echo Hello")
    assert "greeting, command: `args` were taken for it" in found.comments
    assert "Deployment: only a CronJob" in found.comments


def test_a_manifest_without_a_cronjob_is_refused(tmp_path):
    """An empty file of fusiond would say nothing."""
    with pytest.raises(ImportRefused, match="there is no CronJob in"):
        import_text("kubernetes", tmp_path, "kind: Deployment\n")


CONTAINER = (
    "kind: CronJob\nmetadata: {{name: a}}\n"
    "spec: {{schedule: '{}', jobTemplate: {{spec: {{template: {{spec: {{containers: [{{name: a, {}}}]}}}}}}}}}}\n"
)


@pytest.mark.parametrize(("text", "seconds"), [("@every 1h30m", 5400), ("@every  1h0m0s", 3600)])
def test_an_interval_of_the_controller(tmp_path, text, seconds):
    """robfig/cron, which reads the schedule, knows `@every`, too."""
    found = import_text("kubernetes", tmp_path, CONTAINER.format(text, "command: [ls], workingDir: /srv"))
    assert (found.config.cron["a"].every, found.config.tasks["a"].directory) == (seconds, "/srv")
    assert found.config.tasks["a"].timeout.soft == 86400


@pytest.mark.parametrize("container", ["image: a", "args: [--all]"])
def test_a_cronjob_whose_image_names_the_program_is_a_comment(tmp_path, container):
    """Alone, or with options for it."""
    found = import_text("kubernetes", tmp_path, CONTAINER.format("@daily", container))
    assert not found.config.tasks
    assert "a, command: its image's program is run, which is not known here" in found.comments
