"""What supervisor knows of a program before it starts it."""

from __future__ import annotations

import signal
from typing import Any

from supervisor.options import ProcessConfig

from fusiond.program import NAME, TAIL
from fusiond.supervise.program_server import Start
from fusiond.supervise.supervisord.daemon_options import DaemonOptions
from fusiond.supervise.supervisord.program_link import ProgramLink
from fusiond.supervise.wanted_programs import Program

#: supervisor gives a program up after so many failed starts: never
NEVER = 2**31


class ProgramConfig(ProcessConfig):  # type: ignore[misc] # supervisor has no types
    """Supervisor's settings of one program."""

    def __init__(self, options: DaemonOptions, program: Program) -> None:
        self.program = program
        # fmt: off
        settings = {
            "name": program.name.partition(":")[2] or program.name, "command": program.command[0], "priority": 999,
            "autostart": True, "startsecs": 0, "startretries": NEVER, "exitcodes": [0],
            "stopsignal": signal.SIGTERM, "stopwaitsecs": program.stop_seconds, "killasgroup": True,
            # Only `supervisorctl tail` opens it; the program writes it.
            "stdout_logfile": str(program.tail),
        }
        # fmt: on
        # The others are about output pipes and users, which supervisor does not handle here.
        super().__init__(options, **(dict.fromkeys(self.req_param_names) | settings))

    def make_dispatchers(self, process: Any) -> tuple[dict[int, ProgramLink], dict[str, ProgramLink]]:
        """Supervisor's own makes three pipes; a program has one link instead."""
        link = ProgramLink(self.program.name, process.on_message)
        inherited = link.theirs.fileno()
        variables = {NAME: self.program.name, TAIL: str(self.program.tail)}
        arguments = (*self.program.arguments, *(("--held",) if process.held else ()))
        self.options.next_start = Start(self.program.entry, self.program.command, arguments, inherited, variables)
        return {link.fileno(): link}, {"link": link}
