"""What an installation has, without a checkout."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.man_page import PAGE, page

ROOT = Path(__file__).parents[2]
#: what the names of the wheel's own directories begin with
NAME = f"fusiond-{version('fusiond')}"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The path of the wheel, built as pip builds it."""
    to = tmp_path_factory.mktemp("wheel")
    source = to / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "tests", "benchmarks", "build", "dist"))
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(to), str(source)]
    subprocess.run(words, check=True)
    return next(to.glob("*.whl"))


@pytest.fixture
def wheel(built):
    """The wheel's contents."""
    with zipfile.ZipFile(built) as contents:
        yield contents


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    """A virtual environment with the wheel, away from the checkout; it shares the packages of the tests."""
    prefix = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(prefix, with_pip=False, symlinks=True)
    python = prefix / "bin" / "python"
    words = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", built]
    subprocess.run(words, check=True)
    # A .pth of that directory is not read, so the checkout that the tests use is not on the path.
    (purelib,) = prefix.glob("lib/python3*/site-packages")
    (purelib / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return prefix


def installed(environment, *words, cwd):
    """A command of the environment; returns what it printed."""
    words = [environment / "bin" / "fusiond", *words]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_wheel_needs_no_checkout(environment, tmp_path):
    """Schema, starters, units, completions and man page come from the installation, and a task runs."""
    module = "import fusiond; print(fusiond.__file__)"
    found = subprocess.check_output([environment / "bin" / "python", "-c", module], text=True, cwd=tmp_path)
    assert found.startswith(str(environment))
    assert installed(environment, "schema", cwd=tmp_path) == (ROOT / "schemas" / "fusion.schema.json").read_text()
    for shell in ("bash", "zsh", "fish"):
        assert "_ARGCOMPLETE" in installed(environment, "completion", shell, cwd=tmp_path)
    for way in ("", "--systemd", "--docker", "--kubernetes"):
        installed(environment, "init", f"of{way}", *way.split(), cwd=tmp_path)
    installed(environment, "validate", cwd=tmp_path / "of")
    assert "Ada" in installed(environment, "call", "hello", "Ada", cwd=tmp_path / "of")
    for name in ("fusiond", "fusiond@"):
        unit = (tmp_path / "of--systemd" / "etc" / "systemd" / "system" / f"{name}.service").read_text()
        assert f"ExecStart={environment}/bin/fusiond run" in unit
    # Where `man` and the shells look if `bin` is on PATH.
    share = environment / "share"
    assert (share / "man" / "man1" / "fusiond.1").read_text() == PAGE.read_text()
    assert (share / "bash-completion" / "completions" / "fusiond").is_file()
    assert (share / "zsh" / "site-functions" / "_fusiond").is_file()
    assert (share / "fish" / "vendor_completions.d" / "fusiond.fish").is_file()


def test_the_wheel_carries_all_that_a_user_needs(wheel):
    """Licence, schemas, unit files, example, docs and man page are inside."""
    names = {name.removeprefix(f"{NAME}.data/data/share/") for name in wheel.namelist()}
    wanted = {
        "fusiond/schemas/fusion.schema.json",
        "fusiond/schemas/job.schema.json",
        f"{NAME}.dist-info/licenses/LICENSE",
        "man/man1/fusiond.1",
        "doc/fusiond/README.md",
        "doc/fusiond/examples/fusion.yaml",
        "fusiond/systemd/fusiond.service",
        "fusiond/systemd/fusiond@.service",
        "fusiond/systemd/fusiond.sysusers",
        "fusiond/systemd/fusiond.tmpfiles",
    }
    assert wanted <= names, wanted - names


def test_the_metadata_names_the_licence_and_no_unknown_host(wheel):
    """The licence is an SPDX expression; no URL of the project leads to a host that does not exist."""
    metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode().partition("\n\n")[0]
    assert "License-Expression: Apache-2.0" in metadata
    assert "Project-URL" not in metadata


def test_the_man_page_is_that_of_the_command_line():
    """Each command and option is on it: `python -m tests.man_page` writes it."""
    assert PAGE.read_text() == page(), "run `python -m tests.man_page`"


def test_the_debian_package_takes_what_exists():
    """The extras that `make install` installs, and files of the checkout; `make deb` itself takes minutes."""
    rules = (ROOT / "packaging" / "debian" / "rules").read_text()
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert set(re.search(r"'\.\[(.*)\]'", rules)[1].split(",")) == extras
    copied = re.search(r"^cp -r (.*) \"\$source\"$", (ROOT / "packaging" / "deb").read_text(), re.MULTILINE)[1].split()
    assert [name for name in copied if not (ROOT / name).exists()] == []
    taken = re.findall(r"(?:cp|install -m 0644) ((?:systemd|fusiond)/\S+)", rules)
    assert len(taken) == 3
    assert [name for name in taken if not (ROOT / name).is_file()] == []


@pytest.mark.skipif(not shutil.which("dpkg-buildpackage"), reason="dpkg-dev is not installed")
def test_make_deb_names_what_is_missing(tmp_path):
    """Where debhelper or lintian is not installed, it says what to install, and builds nothing."""
    for tool in ("dpkg-buildpackage", "dpkg-checkbuilddeps", "bash", "env", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    words = [shutil.which("bash"), ROOT / "packaging" / "deb"]
    done = subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "lintian is missing; apt-get install" in done.stderr
