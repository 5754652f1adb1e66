"""A process returns unused memory to the operating system."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

# Blocks too small for separate mappings; every second one stays in use.
_FRAGMENTED = """
import ctypes, os, time
from auricle.process.resources import trim_heap

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

blocks = [libc.malloc(60_000) for _ in range(3_000)]
for block in blocks:
    ctypes.memset(block, 1, 60_000)
for block in blocks[::2]:
    libc.free(block)
before, end = resident(), time.monotonic() + 120
stopped = trim_heap(0.01)
while resident() > before - 40 and time.monotonic() < end:
    time.sleep(0.01)
stopped.set()
print(before - resident())
"""


def test_free_pages_between_pages_in_use_are_returned() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _FRAGMENTED], capture_output=True, text=True, timeout=300, check=True
    )
    assert float(ended.stdout) > 40  # of the 57 MiB that are free


# Sessions are reference cycles that live long enough to count as old.
_SESSIONS = """
from collections import deque
from auricle.process.resources import freeze_heap

loaded = [[number] for number in range(1_000_000)]
freeze_heap()
alive = 0

class Session:
    def __init__(self):
        global alive
        alive += 1
        self.parts = [{"session": self} for _ in range(100)]

    def __del__(self):
        global alive
        alive -= 1

opened, most = deque(maxlen=200), 0
for _ in range(3_000):
    opened.append(Session())
    most = max(most, alive)
print(most)
"""


def test_sessions_that_ended_are_collected_however_much_was_loaded_before() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _SESSIONS], capture_output=True, text=True, timeout=300, check=True
    )
    assert int(ended.stdout) < 1_500


_STARTS = """
import gc
usual = gc.get_threshold()
import auricle.cli
from auricle.process.resources import freeze_heap
starting = gc.get_threshold()
freeze_heap()
print(starting[0] >= 100 * usual[0], gc.get_threshold() == usual)
"""


def test_garbage_is_looked_for_rarely_until_a_process_serves() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _STARTS], capture_output=True, text=True, timeout=300, check=True
    )
    assert ended.stdout.split() == ["True", "True"]
