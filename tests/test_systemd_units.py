"""The unit files, read by systemd itself."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parent.parent / "systemd"
pytestmark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture(params=["fusiond.service", "fusiond@.service"])
def unit(tmp_path, request):
    """A shipped unit, with a program that exists here."""
    program = tmp_path / "fusiond"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    path = tmp_path / request.param.replace("@", "@mail")
    path.write_text((UNITS / request.param).read_text().replace("/opt/fusiond/bin/fusiond", str(program)))
    return path


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def version():
    return int(re.search(r"systemd (\d+)", analyze("--version").stdout)[1])


def test_systemd_takes_the_unit(unit):
    """`systemd-analyze verify` has nothing to say, but that a systemd before 253 passes the second Type= over."""
    done = analyze("verify", str(unit))
    complaints = [line for line in done.stderr.splitlines() if "fusiond" in line]
    if version() < 253:
        complaints = [line for line in complaints if not line.endswith("ignoring: notify-reload")]
    assert complaints == []
    assert done.returncode == 0, done.stderr


def test_the_unit_is_sandboxed(unit):
    """The exposure that systemd computes stays below 4.0."""
    said = analyze("security", "--offline=true", str(unit)).stdout
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert float(level[1]) < 4.0, said


def test_the_user_and_the_directories_are_declared_correctly():
    """systemd-sysusers and systemd-tmpfiles read their files."""
    done = subprocess.run(
        ["systemd-sysusers", "--dry-run", str(UNITS / "fusiond.sysusers")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in (UNITS / "fusiond.tmpfiles").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[dz] /etc/\S+ 0[0-7]{3} root root -", line) for line in lines)


def test_the_template_differs_in_the_instances_name_alone():
    """What is changed in one unit is changed in the other."""
    one, template = (_settings(UNITS / f"{name}.service") for name in ("fusiond", "fusiond@"))
    for plain, instance in (
        ("a job runner", "a job runner: %i"),
        ("-c /etc/fusion.yaml", "--instance %i"),
        ("StateDirectory=fusiond", "StateDirectory=fusiond-%i"),
        ("RuntimeDirectory=fusiond", "RuntimeDirectory=fusiond-%i"),
    ):
        one = [line.replace(plain, instance) for line in one]
    assert one == template


def _settings(path):
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_the_unit_does_what_the_daemon_expects():
    """Exit status 78 is not restarted, a reload is synchronous, and only the daemon gets the signal to end."""
    lines = (UNITS / "fusiond.service").read_text().splitlines()
    assert {"RestartPreventExitStatus=78", "KillMode=mixed", "Type=notify", "Type=notify-reload"} <= set(lines)
    assert lines.index("Type=notify") < lines.index("Type=notify-reload")
    assert any(re.fullmatch(r"ExecReload=\S+/fusiond reload .*", line) for line in lines)
