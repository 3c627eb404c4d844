"""
Run a program as a job: the function of a task that has a command.

1. fill   the placeholders of its words by arguments of the job; each must match what the file says, as a whole
2. start  it without a shell, in a process group of its own
3. copy   its output to the job's log, line by line; some lines say how far it is
4. stop   it, where its child is told to: the group gets SIGTERM at the soft timeout, and SIGKILL at any other end
5. judge  its exit status

The process that runs this waits for the program. If that process is killed, its fork server kills the program.

Standard library only, CPython 3.9 and later: it runs under the application's own interpreter. The fork server of a
group without commands does not load `subprocess`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import json
import os
import re
import sys

from . import payload, task_errors, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import IO, Any, Callable, TextIO

#: descriptors that programs keep open: that of the file of this child's number
kept_open: tuple[int, ...] = ()
#: bytes of one value
LONGEST = 4096
#: bytes at the end of its standard output that `result: stdout` keeps, and of standard error that are looked at
KEPT = 32768
_CHUNK = 1 << 16
#: bytes that a pipe can hold, unless its program has made it larger
_PIPE = 1 << 20
_PROGRESS = re.compile(rb"::progress ([0-9.]+)(?: (.*))?$")
#: ms; between two looks of a thread whether it is to stop, for which nothing else wakes it
_LOOK = 200
#: errno of a start that failed → what to do
_REMEDIES = {
    errno.ENOENT: "install it, or correct `command`; a relative path starts at `directory`",
    errno.EACCES: "make it executable: chmod +x",
    errno.ETXTBSY: "it is being written; the job waits until it can be executed",
    errno.ENOTDIR: "correct `directory`",
    errno.ENOEXEC: "its first line must name its interpreter, such as #!/bin/sh",
}


class Command:
    """A program and what the file says of it; called like a function."""

    def __init__(self, spec: str) -> None:
        """`spec`: JSON of task, job, words, parameters, exit_status, directory, stdin, progress, result; see `code`."""
        import subprocess

        self._popen, self._nothing, self._pipe = subprocess.Popen, subprocess.DEVNULL, subprocess.PIPE
        self._spec = json.loads(spec)
        self._success, self._retry, self._snooze = self._spec["exit_status"]

    def check(self) -> Command:
        """Itself. Raises TaskError if its directory or its program is not there, or cannot be executed."""
        program, directory = self._spec["words"][0][0], self._spec["directory"] or "."
        if not os.path.isdir(directory):
            raise task_errors.TaskError("TASK_NOT_FOUND", f"the directory {directory} of its command is not there")
        # Not by shutil.which, whose module loads three more that are written in C.
        places = [directory] if "/" in program else os.get_exec_path()
        there = list(filter(os.path.isfile, [os.path.join(place, program) for place in places]))
        found = next((path for path in there if os.access(path, os.X_OK)), None)
        if found is None:
            raise _not_started(program, errno.EACCES if there else errno.ENOENT)
        if (interpreter := _interpreter(found)) == "":
            raise _not_started(program, errno.ENOEXEC)
        if interpreter and not os.access(os.path.join(directory, interpreter), os.X_OK):
            why = f"{program}: its first line names {interpreter!r}, which cannot be executed; correct that line"
            raise task_errors.TaskError("TASK_NOT_FOUND", why)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        Run the program to its end.

        Returns:
            None, its standard output as text, or the JSON there, as `result` of the task says.

        Raises:
            TaskFailed: the arguments do not fit the placeholders, or its output is not the JSON that it should be.
            TaskError: the program cannot be started.
            ProgramFailed: it has failed.
            SoftTimeout: it had not ended by then. It has been given the time until the hard timeout to end.
        """
        job: Any = kwargs.pop(self._spec["job"], {})
        argv = self._argv(args, kwargs)
        stdin = _file_of(json.dumps({"args": args, "kwargs": kwargs})) if self._spec["stdin"] else self._nothing
        say = job.progress if job and self._spec["progress"] else None
        try:
            status, stdout, stderr = self._run(argv, stdin, self._environment(job), say)
        finally:
            if stdin != self._nothing:
                os.close(stdin)
        if status not in self._success:
            follows = wire.SNOOZE if status in self._snooze else wire.RETRY if status in self._retry else 0
            raise task_errors.ProgramFailed(argv[0], status, stderr.text().strip().rpartition("\n")[2], follows)
        return self._result(stdout)

    # -- arguments -----------------------------------------------------------------------------------------------------

    def _argv(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """Program and arguments. Raises TaskFailed."""
        rules, reads_all = self._spec["parameters"], self._spec["stdin"]
        if args and not reads_all:
            raise _refused("a command takes its arguments by name, not by position")
        if unknown := [] if reads_all else sorted(kwargs.keys() - rules):
            raise _refused(f"it has no parameter {unknown[0]!r}; it has {', '.join(rules) or 'none'}")
        if missing := sorted(rules.keys() - kwargs):
            raise _refused(f"the parameter {missing[0]!r} is missing")
        values = {name: _value(name, kwargs[name], *rule) for name, rule in rules.items()}
        return [
            "".join(values[part] if at % 2 else part for at, part in enumerate(word)) for word in self._spec["words"]
        ]

    def _environment(self, job: dict[str, Any]) -> dict[str, str]:
        own = {
            "FUSION_TASK": self._spec["task"],
            "FUSION_JOB_ID": job.get("id", ""),
            "FUSION_ATTEMPT": str(job.get("attempt", 1)),
            "FUSION_DEADLINE": str(int(job.get("deadline", 0))),
        }
        return {**os.environ, **own}

    # -- start and end -------------------------------------------------------------------------------------------------

    def _run(
        self, argv: list[str], stdin: int, environment: dict[str, str], say: Callable[..., None] | None
    ) -> tuple[int, _Output, _Output]:
        """The program's exit status, negative for a signal, and its outputs. Raises as `__call__`."""
        process, outputs = None, []
        keep = wire.MAX_RESULT + 1 if self._spec["result"] == "stdout_json" else KEPT
        try:
            with uninterrupted():
                process = self._start(argv, stdin, environment)
                outputs = [_Output(process.stdout, sys.stdout, keep, say), _Output(process.stderr, sys.stderr, KEPT)]
            try:
                _copy(process.pid, outputs)
            except task_errors.SoftTimeout:
                _kill(process.pid, _signal.SIGTERM)
                _copy(process.pid, outputs)
                raise
        finally:
            if process is not None:
                with uninterrupted():
                    # Before it is reaped: until then no other group can have its number.
                    _kill(process.pid, _signal.SIGKILL)
                    for output in outputs:
                        output.end()
                    process.wait()
        stdout, stderr = outputs
        return process.returncode, stdout, stderr

    def _start(self, argv: list[str], stdin: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """Raises TaskError if the program is not there or is none, TaskFailed if the arguments are too long."""
        try:
            return self._popen(
                argv, stdin=stdin, stdout=self._pipe, stderr=self._pipe, bufsize=0, env=environment,
                cwd=self._spec["directory"], start_new_session=True, pass_fds=kept_open,
            )  # fmt: skip
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise _refused("arguments and environment are longer than the system accepts") from None
            if error.errno not in _REMEDIES:
                raise
            raise _not_started(error.filename, error.errno) from None

    def _result(self, stdout: _Output) -> Any:
        wanted = self._spec["result"]
        if wanted == "stdout":
            return stdout.text()
        if wanted != "stdout_json":
            return None
        if len(stdout.kept) > wire.MAX_RESULT:
            raise payload.TaskFailed("RESULT_TOO_LARGE", f"its output has more than {wire.MAX_RESULT} bytes")
        try:
            return json.loads(stdout.kept.decode())
        except (ValueError, RecursionError) as error:
            raise payload.TaskFailed("RESULT_NOT_SERIALIZABLE", f"its standard output is not JSON: {error}") from None


def _not_started(name: str, number: int) -> task_errors.TaskError:
    return task_errors.TaskError("TASK_NOT_FOUND", f"{name}: {os.strerror(number)}; {_REMEDIES[number]}")


def _interpreter(path: str) -> str | None:
    """What the first line of a text names, as the kernel reads it; empty: nothing. None: the file is no text."""
    try:
        with open(path, "rb") as file:
            head = file.read(256)
    except OSError:  # it can be executed, and not be read
        return None
    named = re.match(rb"#![ \t]*([^ \t\n]+)", head)
    return None if b"\0" in head else os.fsdecode(named[1]) if named else ""


def _refused(why: str) -> payload.TaskFailed:
    return payload.TaskFailed("BAD_ARGUMENTS", why)


def _value(name: str, value: Any, pattern: str | None, allowed: list[str], leading_dash: bool) -> str:
    """What fills a placeholder. Raises TaskFailed; the message does not have the value, which may be secret."""
    text = str(value) if type(value) in (int, float) else value
    if type(text) is not str:
        raise _refused(f"{name}: it is neither text nor a number")
    if "\0" in text or len(text.encode(errors="replace")) > LONGEST:
        raise _refused(f"{name}: it has a NUL, or more than {LONGEST} bytes")
    if text.startswith("-") and not leading_dash:
        raise _refused(f"{name}: it begins with '-', and its parameter has no `leading_dash: true`")
    if pattern is None and text not in allowed:
        raise _refused(f"{name}: it is none of {', '.join(allowed)}")
    if pattern is not None and not re.fullmatch(pattern, text, re.ASCII):
        raise _refused(f"{name}: it does not match {pattern} as a whole")
    return text


def _file_of(text: str) -> int:
    """Descriptor of a file in memory with this content."""
    fd = os.memfd_create("fusiond-arguments")
    with open(fd, "wb", closefd=False) as file:
        file.write(text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _in_thread() -> bool:
    import threading

    return threading.current_thread() is not threading.main_thread()


class AlarmHeld:
    """A block that the alarm of the soft timeout does not interrupt: it rings at the end."""

    def __enter__(self) -> None:
        self._rang: list[int] = []
        self._former = None if _in_thread() else _signal.signal(_signal.SIGALRM, lambda *_: self._rang.append(1))

    def __exit__(self, *_: object) -> None:
        if self._former is not None:
            _signal.signal(_signal.SIGALRM, self._former)
        if self._rang and callable(self._former):
            self._former(_signal.SIGALRM, None)


#: makes a block in which nothing stops the job: a program must not be started and forgotten
uninterrupted: Callable[[], Any] = AlarmHeld


def _kill(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass  # it is gone, or belongs to another user by now


def _copy(pid: int, outputs: list[_Output]) -> None:
    """Copy until the program has ended: a process that it leaves behind may keep the pipes open."""
    import select

    poll, ended = select.poll(), os.pidfd_open(pid)
    try:
        by_fd = {output.pipe.fileno(): output for output in outputs if not output.ended}
        for fd in (ended, *by_fd):
            poll.register(fd, select.POLLIN)
        timeout = _LOOK if _in_thread() else None
        while ended not in (ready := [fd for fd, _ in poll.poll(timeout)]):
            for fd in ready:
                by_fd[fd].copy()
                if by_fd[fd].ended:
                    poll.unregister(fd)
    finally:
        os.close(ended)


class _Output:
    """One of the program's two outputs."""

    def __init__(self, pipe: IO[bytes] | None, log: TextIO, keep: int, say: Callable[..., None] | None = None) -> None:
        """`keep`: bytes at its end that are kept; `say`: takes share and message of a line about progress."""
        assert pipe is not None  # noqa: S101 - Popen was asked for it
        self.pipe, self._log, self._keep, self._say = pipe, log, keep, say
        #: nothing more will come
        self.ended = False
        self.kept, self._line = bytearray(), b""
        os.set_blocking(pipe.fileno(), False)

    def copy(self, most: int = _CHUNK) -> None:
        """Copy at most so many bytes of what is there."""
        try:
            data = os.read(self.pipe.fileno(), most)
        except BlockingIOError:
            return
        self.ended = not data
        lines = (self._line + data).splitlines(keepends=True)
        # Whole lines, so that those of the two outputs do not mix.
        open_line = lines and not lines[-1].endswith(b"\n") and data and len(lines[-1]) < _CHUNK
        self._line = lines.pop() if open_line else b""
        text = b"".join(line for line in lines if not (self._say and self._is_progress(line)))
        self._write(text)

    def end(self) -> None:
        """Copy what is in the pipe now, an unfinished line too; a process in another session may go on to write."""
        # By one read: whoever writes on would fill the pipe again while the log takes what was read.
        self.copy(_PIPE)
        if not self._is_progress(self._line):
            self._write(self._line)
        self.pipe.close()

    def _write(self, text: bytes) -> None:
        if text:
            # A NUL would begin a mark, by which the dispatcher tells the jobs of a child apart.
            self._log.write(text.decode(errors="replace").replace("\0", "\ufffd"))
            self._log.flush()
            self.kept += text
            del self.kept[: -self._keep]

    def text(self) -> str:
        """The end of it."""
        return self.kept.decode(errors="replace")

    def _is_progress(self, line: bytes) -> bool:
        """Whether it says how far the job is, which is passed on."""
        found = self._say and _PROGRESS.match(line.strip())
        if not (found and self._say):
            return False
        try:
            self._say(float(found[1]), (found[2] or b"").decode(errors="replace"))
        except ValueError:
            return False
        return True
