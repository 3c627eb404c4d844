"""What an installation has, without a checkout."""

import functools
import os
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
from tests.support.running import until

ROOT = Path(__file__).parents[2]
#: what the names of the wheel's own directories begin with
NAME = f"fusiond-{version('fusiond')}"


def clone(to):
    """A repository of its own, with the files as they are, in one commit; the path has a space."""
    to = to / "a clone"
    kept = ("fusiond", "schemas", "etc", "systemd", "docs", "packaging")
    for name in kept:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, to / name)
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "all"]):
        git(to, *words)
    return to


def git(where, *words):
    mine = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *mine, *words], cwd=where, check=True)


def release(where, **variables):
    """What `make release` does once its tools are installed."""
    environment = {**os.environ, "PYTHON": sys.executable, "DEB": "no", **variables}
    words = [where / "packaging" / "release"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A release without the Debian package."""
    where = clone(tmp_path_factory.mktemp("release"))
    done = release(where)
    assert done.returncode == 0, done.stderr
    return where / "dist"


@pytest.fixture(scope="module")
def built(dist):
    """The path of the wheel."""
    return next(dist.glob("*.whl"))


@pytest.fixture
def wheel(built):
    """The wheel's contents."""
    with zipfile.ZipFile(built) as contents:
        yield contents


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory):
    """A virtual environment with the wheel and what pip brings along, away from the checkout."""
    prefix = tmp_path_factory.mktemp("installed") / "venv"
    install(prefix, f"{built}[embedded]")
    return prefix


def install(prefix, *words):
    venv.create(prefix, with_pip=False, symlinks=True)
    subprocess.run([sys.executable, "-m", "pip", "--python", prefix, "install", "--quiet", *words], check=True)


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


def test_a_release_is_of_a_commit_and_of_a_version_whose_changes_are_written_down(dist):
    """Otherwise it says what to do, and what was built before is still there."""
    clone = dist.parent
    refused = {}
    (clone / "new").touch()
    refused["these files differ from it; commit or remove them"] = release(clone)
    (clone / "new").unlink()
    refused["the tag v9 is not v0.1.0"] = release(clone, TAG="v9")
    refused["write ## [0.1.0] – 20"] = release(clone, TAG="v0.1.0")
    changes = (clone / "CHANGELOG.md").read_text()
    (clone / "CHANGELOG.md").write_text(changes.replace("## [0.1.0]", "## [0.0.9]"))
    git(clone, "commit", "--quiet", "--all", "--message", "without a heading")
    refused["CHANGELOG.md has no heading '## [0.1.0]'"] = release(clone)
    for words, done in refused.items():
        assert (done.returncode, words in done.stderr) == (1, True), (words, done)
    assert (dist / "SHA256SUMS").is_file()
    git(clone, "reset", "--quiet", "--hard", "HEAD~1")


def test_the_same_commit_makes_the_same_bytes(dist, tmp_path):
    """In another place, at another time, by a user with another umask; the checksums are those of the files."""
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=dist, check=True)
    git(tmp_path, "clone", "--quiet", str(dist.parent), "again")
    before = os.umask(0o077)
    try:
        assert release(tmp_path / "again").returncode == 0
    finally:
        os.umask(before)
    assert (tmp_path / "again" / "dist" / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()


def is_ready(fusiond, where):
    words = [*fusiond, "health", "--ready"]
    return subprocess.run(words, cwd=where, capture_output=True, check=False).returncode == 0


def use(fusiond, where):
    """What a newcomer does: a file, a daemon with a server of its own, and one job."""
    run = functools.partial(subprocess.run, cwd=where, check=True, capture_output=True, text=True)
    run([*fusiond, "init", "."])
    run([*fusiond, "validate"])
    with subprocess.Popen([*fusiond, "run"], cwd=where) as daemon:
        try:
            until(lambda: is_ready(fusiond, where))
            assert "Ada" in run([*fusiond, "enqueue", "hello", "Ada", "--wait", "--timeout", "1m"]).stdout
        finally:
            daemon.terminate()
    assert daemon.returncode == 0


def test_the_wheel_runs_a_job(environment, tmp_path):
    """In an environment that has nothing else."""
    use([environment / "bin" / "fusiond"], tmp_path)


def test_the_sdist_runs_a_job(dist, tmp_path):
    """What is made from it has all that the wheel of the checkout has."""
    install(tmp_path / "venv", "--no-deps", next(dist.glob("*.tar.gz")))
    # The packages of the tests are enough. A .pth of their directory is not read, so the checkout is not on the path.
    (purelib,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    (purelib / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    use([tmp_path / "venv" / "bin" / "fusiond"], tmp_path)


@pytest.mark.skipif(not shutil.which("dh") or not shutil.which("lintian"), reason="needs debhelper and lintian")
def test_the_debian_package_runs_a_job(tmp_path):
    """Unpacked, with the interpreter of this Debian; it takes minutes."""
    where = clone(tmp_path)
    done = release(where, DEB="yes")
    assert done.returncode == 0, done.stderr
    assert "_amd64.deb" in (where / "dist" / "SHA256SUMS").read_text()
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "--extract", next((where / "dist").glob("*.deb")), root], check=True)
    (root / "usr" / "bin" / "python3").symlink_to("/usr/bin/python3")
    program = root / "usr" / "lib" / "fusiond" / "bin"
    assert (program / "fusiond").read_text().splitlines()[1].startswith("#")
    (tmp_path / "used").mkdir()
    use([program / "python3", program / "fusiond"], tmp_path / "used")


ENGINE = next(filter(shutil.which, ("docker", "podman")), "")
BASE = "python:3.13-slim"


@pytest.fixture
def image(dist):
    """Built from what is in dist/, where an engine is there that has the base, or gets it."""
    for words in (["info"], ["pull", "--quiet", BASE]):
        if not ENGINE or subprocess.run([ENGINE, *words], capture_output=True, timeout=120, check=False).returncode:
            pytest.skip(f"needs docker or podman, and {BASE}")
    subprocess.run([ENGINE, "build", "--quiet", "--tag", "fusiond-proof", dist], check=True)
    yield "fusiond-proof"
    subprocess.run([ENGINE, "rmi", "--force", "fusiond-proof"], capture_output=True, check=False)


def test_the_image_runs_a_job(image):
    """As any user, with nothing mounted."""
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=True)
    container = run([ENGINE, "run", "--detach", "--rm", image]).stdout.strip()
    ask = [ENGINE, "exec", container, "fusiond"]
    try:
        until(lambda: is_ready(ask, None))
        assert "Ada" in run([*ask, "enqueue", "hello", "Ada", "--wait", "--timeout", "1m"]).stdout
    finally:
        run([ENGINE, "stop", container])


def test_the_wheel_carries_all_that_a_user_needs(wheel):
    """Licence, schemas, unit files, example, docs and man page are inside."""
    names = {name.removeprefix(f"{NAME}.data/data/share/") for name in wheel.namelist()}
    wanted = {
        "fusiond/schemas/fusion.schema.json",
        "fusiond/schemas/job.schema.json",
        "fusiond/schemas/fusion-tests.schema.json",
        f"{NAME}.dist-info/licenses/LICENSE",
        "man/man1/fusiond.1",
        "doc/fusiond/README.md",
        "doc/fusiond/examples/fusion.yaml",
        "doc/fusiond/examples/fusion.tests.yml",
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
