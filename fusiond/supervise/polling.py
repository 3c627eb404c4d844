"""
Look for changes again and again, in a thread, where the kernel does not tell of them.

The thread touches nothing but its own event and the loop's wake-up pipe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: ms: a burst has ended when nothing came for STEP, or after DEBOUNCE
DEBOUNCE, STEP = 100, 50
#: ms between two looks at whether the directories are still the same
LOOK = 500
#: seconds until a directory that is gone is looked for again
PATIENCE = 5.0
#: set to anything but one of NO, it says that the kernel does not tell; the name is watchfiles' own
SWITCH, NO = "WATCHFILES_FORCE_POLLING", ("", "0", "false", "disable", "disabled")


def wanted() -> bool:
    """Whether the environment asks for it."""
    return os.environ.get(SWITCH, "").lower() not in NO


class Polling:
    """
    One thread, for one answer of `places`.

    Args:
        places: the directories to look at, asked again after each change.
        fire: called, in the thread, when something happened.
    """

    def __init__(self, places: Callable[[], frozenset[str]], fire: Callable[[], None]) -> None:
        self._places, self._fire = places, fire
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def stop(self) -> None:
        """End the thread, within a step."""
        self._stop.set()

    def _run(self) -> None:
        import watchfiles  # here: it takes its time, and memory where it is not needed

        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        while not self._stop.is_set():
            watch = self._places()
            # What changed before the first watch, or between two, has no event.
            self._fire()
            if not watch:
                # watchfiles would wait for nothing, for ever.
                self._stop.wait(PATIENCE)
                continue
            settled = False
            with contextlib.suppress(FileNotFoundError):
                for changes in watchfiles.watch(
                    *sorted(watch), watch_filter=None, debounce=DEBOUNCE, step=STEP, stop_event=self._stop,
                    recursive=False, raise_interrupt=False, rust_timeout=LOOK, yield_on_timeout=True,
                ):  # fmt: skip
                    # Once more when the watch surely stands: it takes what it finds at its begin for nothing new.
                    if changes or not settled:
                        self._fire()
                    settled = True
                    if self._places() != watch:
                        break
