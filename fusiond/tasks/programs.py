"""
Run a program as a job.

1. start  it without a shell, in the job's own process group: what ends the job ends the program
2. copy   its output to the job's log as it comes, keeping the end of it
3. judge  its exit status

A process that the program leaves behind does not delay the job, which ends with the program; the fork server kills it.
"""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import selectors
    import subprocess
    from collections.abc import Mapping, Sequence

#: bytes at the end of each of the two outputs that the result holds
KEPT = 32 * 1024
_CHUNK = 64 * 1024


class CommandFailed(Exception):
    """
    The program ended with another status than 0.

    Attributes:
        exit_status: of the program; negative: the number of the signal that killed it.
        stderr: the end of what it wrote there.
    """

    def __init__(self, program: str, exit_status: int, stderr: str) -> None:
        self.exit_status, self.stderr = exit_status, stderr
        how = f"was killed by signal {-exit_status}" if exit_status < 0 else f"exited with status {exit_status}"
        last = stderr.strip().rpartition("\n")[2]
        super().__init__(f"{program} {how}{': ' if last else ''}{last}")


def command(
    argv: Sequence[str],
    *,
    timeout: float | None = None,
    input: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> dict[str, Any]:
    """
    Run a program to its end; what it prints goes to the job's log.

    Args:
        argv: the program and its arguments, each as it is: no shell reads them.
        timeout: seconds; the job's own timeout holds as well.
        input: what the program reads on its standard input; None: nothing.
        env: variables in addition to the job's own.
        cwd: where it starts; None: the group's directory.

    Returns:
        {"exit_status": 0, "stdout": the end of it, "stderr": the end of it}.

    Raises:
        CommandFailed: the exit status was not 0.
        TimeoutError: `timeout` was over; the program was killed.
        OSError: it could not be started.
        TypeError: argv is not a list of strings.
    """
    import subprocess

    if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
        raise TypeError(f"argv is {argv!r}: use a list of strings, [program, argument, …]; no shell splits it")
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=None if env is None else {**os.environ, **env},
        cwd=cwd,
        bufsize=0,
    )
    with process:
        try:
            stdout, stderr = _copy_until_exit(process, input, timeout)
        except BaseException:  # a soft timeout is no Exception
            process.kill()
            raise
    if process.returncode:
        raise CommandFailed(argv[0], process.returncode, stderr)
    return {"exit_status": 0, "stdout": stdout, "stderr": stderr}


class _Output:
    """One of the program's outputs."""

    def __init__(self, pipe: IO[bytes], log: TextIO) -> None:
        import codecs

        self.pipe, self._log = pipe, log
        self._kept = bytearray()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        os.set_blocking(pipe.fileno(), False)

    def copy(self) -> bool:
        """Copy what is there; False: there is no more for now."""
        try:
            data = os.read(self.pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        self._log.write(self._decode(data, final=not data))
        self._log.flush()
        self._kept += data
        del self._kept[:-KEPT]
        return bool(data)

    def text(self) -> str:
        """The end of it."""
        return self._kept.decode(errors="replace")


class _Input:
    """What the program reads."""

    def __init__(self, pipe: IO[bytes], text: str) -> None:
        self.pipe, self._left = pipe, memoryview(text.encode())
        os.set_blocking(pipe.fileno(), False)

    def feed(self) -> bool:
        """Write as much as fits; False: that was all, or nobody reads it, and the pipe is closed."""
        try:
            self._left = self._left[os.write(self.pipe.fileno(), self._left[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._left = self._left[:0]
        if not self._left:
            self.pipe.close()
        return bool(self._left)


def _copy_until_exit(process: subprocess.Popen[bytes], text: str | None, timeout: float | None) -> tuple[str, str]:
    """Feed and copy until the program has ended; returns the end of both outputs. Raises TimeoutError."""
    import selectors
    import sys

    pipes = (process.stdout, sys.stdout), (process.stderr, sys.stderr)
    outputs = [_Output(pipe, log) for pipe, log in pipes if pipe]
    # The pipes do not show the program's end: a process that it left behind may keep them open.
    pidfd = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(pidfd, selectors.EVENT_READ)
            for output in outputs:
                selector.register(output.pipe, selectors.EVENT_READ, output.copy)
            if process.stdin is not None:
                selector.register(process.stdin, selectors.EVENT_WRITE, _Input(process.stdin, text or "").feed)
            _pump(selector, timeout)
    finally:
        os.close(pidfd)
    for output in outputs:
        while output.copy():
            pass
    return outputs[0].text(), outputs[1].text()


def _pump(selector: selectors.BaseSelector, timeout: float | None) -> None:
    """Call the handler of each pipe that is ready, until the pidfd, which has no handler, is ready too."""
    import time

    deadline = None if timeout is None else time.monotonic() + timeout
    ended = False
    while not ended:
        events = selector.select(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if not events:
            raise TimeoutError(f"it had not ended after {timeout} s and was killed")
        for key, _ in events:
            if key.data is None:
                ended = True
            elif not key.data():
                selector.unregister(key.fileobj)
