"""Jobs as no one would want them; run by the group's interpreter, beside those that are counted. No fusiond here.

`job` is what every task of the harness is handed.
"""

import os
import pathlib
import signal
import time


def large(mebibytes, *, job):
    """More than any result may be."""
    return "x" * (mebibytes << 20)


def endless(*, job):
    """Print without end."""
    while True:
        os.write(1, b"y\n" * 2000)


def deaf(*, job):
    """Ignore every signal that can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    end = time.monotonic() + 600
    while time.monotonic() < end:
        try:
            time.sleep(1.0)
        except BaseException:
            continue


def closing(*, job):
    """Close each descriptor, the child's socket among them, and stay."""
    os.closerange(0, 4096)
    time.sleep(600)


def daemonizing(path, *, job):
    """Fork twice, with a session between; the daemon notes its pid, and when it began, and stays."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            fresh = pathlib.Path(f"{path}.tmp")
            began = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
            fresh.write_text(f"{os.getpid()} {began}\n")
            fresh.rename(path)
            time.sleep(600)
        os._exit(0)
    os.wait()
    while not pathlib.Path(path).exists():
        time.sleep(0.005)


def wordy(lines, *, job):
    """So many lines of a hundred characters."""
    for number in range(lines):
        print(f"{number:0100d}", flush=True)
