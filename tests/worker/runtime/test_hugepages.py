"""The memory of a large application is put into huge pages, that of a small one is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from fusiond.worker.runtime import hugepages

#: what a process does that uses so many bytes and has a minute: how many blocks it finds, how many it has put into huge
#: pages, and kB that are
_PROGRAM = """
import sys
from fusiond.worker.runtime import hugepages
hugepages._FIND_WITHIN = hugepages._WITHIN = 60
kept = [bytes(500) for _ in range({bytes} // 544)]
print(len(list(hugepages._blocks())), hugepages.collapse())
print(next(line.split()[1] for line in open("/proc/self/smaps_rollup") if "AnonHuge" in line))
assert all(text == bytes(500) for text in kept)
"""


def _collapsed(size: int) -> list[int]:
    program = [sys.executable, "-c", _PROGRAM.format(bytes=size)]
    return [int(number) for number in subprocess.check_output(program, text=True).split()]


def test_a_large_program_is_put_into_huge_pages() -> None:
    """Half of it at least, since only whole blocks can be, and as far as the kernel has huge pages free."""
    allowed = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not allowed.exists() or "[never]" in allowed.read_text():
        pytest.skip("this host has no huge pages")
    found, blocks, kilobytes = _collapsed(64 << 20)
    assert found * hugepages.BLOCK > 32 << 20
    if not blocks:
        pytest.skip("this kernel cannot collapse, or has no huge page free")
    assert kilobytes == blocks * hugepages.BLOCK >> 10


def test_a_small_program_stays_as_it_is() -> None:
    """There it costs more than it brings."""
    assert _collapsed(1 << 20)[1:] == [0, 0]


def test_a_host_that_allows_no_huge_pages_is_obeyed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The kernel would collapse all the same."""
    allowed = tmp_path / "enabled"
    allowed.write_text("always madvise [never]\n")
    monkeypatch.setattr(hugepages, "_ALLOWED", str(allowed))
    monkeypatch.setattr(hugepages, "_blocks", lambda: pytest.fail("it looked for blocks"))
    assert hugepages.collapse() == 0
    allowed.unlink()
    assert hugepages.collapse() == 0


def test_reserved_memory_costs_no_time() -> None:
    """To look at each block of 256 GiB, of which no page is in use, took seconds, in which no child could be forked."""
    program = """
import mmap, time
from fusiond.worker.runtime import hugepages
try:
    reserved = mmap.mmap(-1, 256 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
except OSError:
    raise SystemExit(print("refused"))
hugepages.collapse()
print(time.process_time())
"""
    took = subprocess.check_output([sys.executable, "-c", program], text=True).strip()
    if took == "refused":
        pytest.skip("this host lets nobody reserve so much")
    assert float(took) < 1
