"""
A cable between two network devices that delays each frame: what `tc netem` does, for kernels without it.

    python cable.py DEVICE DEVICE      makes both (TAP), prints a line, and carries frames until standard input ends

Each line of standard input sets the delay, in seconds. Takes some 50 µs of CPU for a frame.
"""

import collections
import contextlib
import fcntl
import os
import select
import struct
import sys
import time

_TUNSETIFF = 0x400454CA
#: IFF_TAP and IFF_NO_PI: bare Ethernet frames
_KIND = 0x0002 | 0x1000
_LARGEST = 65_536


def main(names: list[str]) -> None:
    """Carry frames both ways."""
    one, other = map(_device, names)
    across, delay = {one: other, other: one}, 0.0
    #: when it is due, at which end, and the frame
    under_way: collections.deque[tuple[float, int, bytes]] = collections.deque()
    print("ready", flush=True)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        for end in select.select([0, one, other], [], [], wait)[0]:
            if end == 0:
                line = sys.stdin.readline()
                if not line:
                    return
                delay = float(line)
            else:
                under_way.extend((time.monotonic() + delay, across[end], frame) for frame in _frames(end))
        while under_way and under_way[0][0] <= time.monotonic():
            _, end, frame = under_way.popleft()
            # The device is down, or its queue is full: a lost frame, as on any cable.
            with contextlib.suppress(OSError):
                os.write(end, frame)


def _device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", name.encode(), _KIND))
    return device


def _frames(end: int) -> list[bytes]:
    found = []
    with contextlib.suppress(OSError):
        while True:
            found.append(os.read(end, _LARGEST))
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
