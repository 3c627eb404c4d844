"""What a fork server does before it forks."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
ENTER = """
import json, socket
from fusiond.worker.runtime import startup
control = socket.socketpair()[0].detach()
startup.enter(control, {"directory": "/", "umask": None}, False)
print(json.dumps(sys.path))
"""


def test_no_entry_of_the_path_is_a_symlink(tmp_path):
    """One that a deployment switches would lead a process that has loaded one release to modules of another."""
    (tmp_path / "41").mkdir()
    (tmp_path / "current").symlink_to("41")
    # As a line of a .pth file does it; -P: the working directory is not added.
    code = f"import sys; sys.path.append({str(tmp_path / 'current')!r}){ENTER}"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path = json.loads(done.stdout)
    assert path[0] == "/"
    assert path[-1] == os.path.realpath(tmp_path / "41")
    assert [entry for entry in path if os.path.realpath(entry) != entry] == []
