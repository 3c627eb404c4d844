"""
`fusiond run` whose programs are stand-ins: the supervisor's own behaviour, without Redis and task code.

`SILENT` in the environment: the seconds of silence after which a program is killed, where that is the subject.
"""

import os
import sys
from pathlib import Path

from fusiond import cli
from fusiond.supervise import liveness, start, wanted_programs

wanted_programs.SETTLE = 1.0
if "SILENT" in os.environ:
    liveness.SILENT = float(os.environ["SILENT"])
    liveness.ASK = liveness.SILENT / 5
wanted_programs.WORKER_MODULE = wanted_programs.SCHEDULER_MODULE = "standin_program"
start.LOADED = ("standin_program",)

if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    sys.path.append(os.environ["PYTHONPATH"])
    sys.exit(cli.main(sys.argv[1:]))
