"""`produce.py APP PLAN NOTES`: enqueue each [at, number, sleep] of the plan when due; note what is acknowledged."""

import importlib
import json
import sys
import time
from pathlib import Path


def main(app, plan, notes):
    enqueue = importlib.import_module(app).enqueue
    began = time.monotonic()
    with Path(notes).open("a", buffering=1) as file:
        for at, number, sleep in json.loads(Path(plan).read_text()):
            time.sleep(max(0.0, began + at - time.monotonic()))
            enqueue(number, sleep)
            file.write(f"{number}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
