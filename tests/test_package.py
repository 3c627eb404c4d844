"""What an installation has, without a checkout."""

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.man_page import PAGE, page

ROOT = Path(__file__).parent.parent
#: what the names of the wheel's own directories begin with
NAME = f"fusiond-{version('fusiond')}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built as pip builds it."""
    to = tmp_path_factory.mktemp("wheel")
    source = to / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "tests", "benchmarks", "__pycache__"))
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(to), str(source)]
    subprocess.run(words, check=True, timeout=100)
    return zipfile.ZipFile(next(to.glob("*.whl")))


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
        "doc/fusiond/systemd/fusiond.service",
        "doc/fusiond/systemd/fusiond.sysusers",
        "doc/fusiond/systemd/fusiond.tmpfiles",
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


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_the_man_page_is_clean_roff():
    """`man` shows it without a warning."""
    shown = subprocess.run(["groff", "-ww", "-man", "-Tascii", PAGE], capture_output=True, text=True, check=True)
    assert shown.stderr == ""
    assert "fusiond job list" in re.sub(r".\x08", "", shown.stdout)
