"""The orphan killer: the processes that it watches end when this process closes it or is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from perdure.supervision.orphan_killer import OrphanKiller

WATCH = """
import sys, time
from perdure.supervision.orphan_killer import OrphanKiller
OrphanKiller().watch(int(sys.argv[1]))
print(flush=True)
time.sleep(1000)
"""


@pytest.fixture
def sleeper() -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(1000)"])
    yield process
    process.kill()
    process.wait()


def test_watched_processes_end_when_it_is_closed(sleeper: "subprocess.Popen[bytes]") -> None:
    killer = OrphanKiller()
    killer.watch(sleeper.pid)
    assert sleeper.poll() is None
    killer.close()
    assert sleeper.wait(10) == -signal.SIGKILL


def test_watched_processes_end_when_this_process_is_killed(sleeper: "subprocess.Popen[bytes]") -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", WATCH, str(sleeper.pid)], env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.kill()
    assert sleeper.wait(10) == -signal.SIGKILL


def test_a_killer_that_was_killed_is_replaced(sleeper: "subprocess.Popen[bytes]") -> None:
    killer = OrphanKiller()
    os.kill(killer._process.pid, signal.SIGKILL)
    killer._process.wait()
    killer.watch(sleeper.pid)
    began_s = time.monotonic()
    killer.close()
    assert sleeper.wait(10) == -signal.SIGKILL and time.monotonic() - began_s < 10
