"""`fusiond run` whose programs are stand-ins: the supervisor's own behaviour, without Redis and task code."""

import os
import sys
from pathlib import Path

from fusiond import cli
from fusiond.supervise import programs, standby

programs.SETTLE = 1.0
# It becomes a worker, and the stand-in is none.
standby.Standby.prepare = lambda _: None
programs.WORKER_MODULE = programs.SCHEDULER_MODULE = "standin_program"

if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    sys.exit(cli.main(sys.argv[1:]))
