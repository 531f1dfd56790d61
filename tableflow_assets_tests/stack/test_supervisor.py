"""The supervisor over processes that only sleep: starting, watching, restarting, ending."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tableflow_assets.base.errors import StackError
from tableflow_assets.stack.server import Server
from tableflow_assets.stack.state import ProcessRecord, StackState
from tableflow_assets.stack.supervisor import RESTART_LIMIT, Supervisor

SLEEP = "import time; time.sleep(600)"
PATIENCE_SECONDS = 60


class Sleeper(Server):
    """Ready when its program has said so, by a file."""

    name = "sleeper"
    start_seconds = 60
    program = f"open('ready', 'w').close(); {SLEEP}"

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "ready").unlink(missing_ok=True)

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.program]

    def check(self) -> None:
        (self.folder / "ready").stat()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def supervisor(folder: Path, *kinds: type[Server], report: list[str] | None = None) -> Supervisor:
    state = StackState.load(folder)
    return Supervisor(
        state, [kind(state) for kind in kinds], ([] if report is None else report).append
    )


def pid_of(running: Supervisor) -> int:
    return running.state.processes["sleeper"].pid


def children() -> set[int]:
    """Processes below this one that live."""
    below = psutil.Process().children(recursive=True)
    return {process.pid for process in below if is_alive(process.pid)}


def is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads its own session and is none of any stack's business."""
    with subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True) as process:
        yield process
        process.kill()


def test_inside_the_servers_are_ready_and_after_they_are_gone(tmp_path: Path) -> None:
    with supervisor(tmp_path, Sleeper) as running:
        pid = pid_of(running)
        state = StackState.load(tmp_path)
        assert is_alive(pid)
        assert state.ready
        assert state.running
        assert state.processes["sleeper"].pid == pid
    assert not is_alive(pid)
    state = StackState.load(tmp_path)
    assert (state.ready, state.running, state.processes) == (False, False, {})


def test_a_server_runs_in_its_own_folder_with_its_environment_and_a_log(tmp_path: Path) -> None:
    class Speaker(Sleeper):
        program = "import os; print(os.getcwd(), os.environ['WORD'], flush=True);" + Sleeper.program

        def environment(self) -> dict[str, str]:
            return {"WORD": "spoken"}

    with supervisor(tmp_path, Speaker) as running:
        log = running.state.log_of("sleeper")
        until(lambda: log.read_text() == f"{tmp_path / 'sleeper'} spoken\n")


def test_a_second_supervisor_on_the_folder_is_refused_and_disturbs_nothing(tmp_path: Path) -> None:
    with supervisor(tmp_path, Sleeper) as first:
        before = (tmp_path / "stack.json").read_text()
        with (
            pytest.raises(StackError, match="already runs") as caught,
            supervisor(tmp_path, Sleeper),
        ):
            pass
        assert str(tmp_path) in caught.value.problem
        assert is_alive(pid_of(first))
        assert (tmp_path / "stack.json").read_text() == before


def test_a_folder_that_cannot_be_written_is_named_and_nothing_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = children()
    unwritable = supervisor(tmp_path / "file" / "state", Sleeper)
    with pytest.raises(StackError, match="cannot be written"), unwritable:
        pass
    assert children() == before


def test_every_server_is_told_once_when_it_is_ready(tmp_path: Path) -> None:
    state, told = StackState.load(tmp_path), dict[str, float]()
    with Supervisor(state, [Sleeper(state)], on_ready=told.__setitem__) as running:
        assert told.keys() == {"sleeper"}
        assert 0 < told.pop("sleeper") < PATIENCE_SECONDS
        first = pid_of(running)
        os.kill(first, 9)
        until(lambda: pid_of(running) != first and running.is_ready("sleeper"))
        assert told == {}


def test_a_server_that_dies_is_started_again_and_reported(tmp_path: Path) -> None:
    report: list[str] = []
    with supervisor(tmp_path, Sleeper, report=report) as running:
        first = pid_of(running)
        os.kill(first, 9)
        until(lambda: len(report) == 2)
        assert "sleeper died (signal 9); starting it again" in report[0]
        assert "sleeper is back" in report[1]
        assert pid_of(running) != first
        assert StackState.load(tmp_path).processes["sleeper"].restarts == 1
        running._raise_failure()


def test_a_server_that_cannot_stay_alive_ends_the_waiting_with_its_log(tmp_path: Path) -> None:
    class Mortal(Sleeper):
        program = "pass"

        def check(self) -> None:
            """Ready at once, so that each death counts as that of a server that had worked."""

    with supervisor(tmp_path, Mortal) as running:
        with pytest.raises(StackError, match=f"died {RESTART_LIMIT} times") as caught:
            running.wait()
        assert str(tmp_path / "logs" / "sleeper.log") in caught.value.next_step


def test_a_server_that_dies_at_start_is_reported_with_its_log_and_takes_the_others_along(
    tmp_path: Path,
) -> None:
    class Broken(Sleeper):
        name = "broken"
        program = "import sys; print('no such option', flush=True); sys.exit(3)"

    before = children()
    failing = supervisor(tmp_path, Sleeper, Broken)
    ended = r"broken ended while starting \(exit code 3\)"
    with pytest.raises(StackError, match=ended) as caught, failing:
        pass
    log = tmp_path / "logs" / "broken.log"
    assert str(log) in caught.value.next_step
    assert log.read_text() == "no such option\n"
    assert children() == before
    assert not StackState.load(tmp_path).running


def test_a_server_that_never_becomes_ready_is_reported_with_the_reason(tmp_path: Path) -> None:
    class Deaf(Sleeper):
        program = SLEEP
        start_seconds = 1

        def check(self) -> None:
            raise ConnectionError("nobody listens")

    before = children()
    failing = supervisor(tmp_path, Deaf)
    with pytest.raises(StackError, match="not ready after 1 s: nobody listens") as caught, failing:
        pass
    assert str(tmp_path / "logs" / "sleeper.log") in caught.value.next_step
    assert children() == before


def test_a_server_that_needs_another_starts_after_it_and_stops_before_it(tmp_path: Path) -> None:
    noting = """
import signal, sys, time
def note(word):
    with open('../order', 'a') as file:
        file.write(word + '\\n')
def stop(*_):
    time.sleep(0.3)
    note('{name} stops')
    sys.exit()
signal.signal(signal.SIGTERM, stop)
note('{name} starts')
open('ready', 'w').close()
time.sleep(600)
"""

    class Base(Sleeper):
        name = "base"
        program = noting.format(name="base")

    class Dependant(Sleeper):
        name = "dependant"
        needs = ("base",)
        starts_after_needs = True
        program = noting.format(name="dependant")

    with supervisor(tmp_path, Dependant, Base):
        pass
    assert (tmp_path / "order").read_text().splitlines() == [
        "base starts",
        "dependant starts",
        "dependant stops",
        "base stops",
    ]


PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', {SLEEP!r}])
with open('child', 'w') as file:
    file.write(str(child.pid))
{Sleeper.program}
"""


class Parent(Sleeper):
    program = PARENT


def child_of(folder: Path) -> int:
    return int((folder / "sleeper" / "child").read_text())


def test_stopping_ends_what_a_server_has_started_too(tmp_path: Path) -> None:
    with supervisor(tmp_path, Parent):
        child = child_of(tmp_path)
        assert is_alive(child)
    assert not is_alive(child)


def test_stopping_ends_also_the_children_of_a_server_that_died(tmp_path: Path) -> None:
    report: list[str] = []
    with supervisor(tmp_path, Parent, report=report) as running:
        orphan = child_of(tmp_path)
        os.kill(pid_of(running), 9)
        until(lambda: len(report) == 2)
        assert is_alive(orphan)
    assert not is_alive(orphan)


def test_a_server_that_ignores_the_request_to_stop_is_killed(tmp_path: Path) -> None:
    class Stubborn(Sleeper):
        stop_seconds = 0.5
        program = "import signal; signal.signal(15, signal.SIG_IGN);" + Sleeper.program

    with supervisor(tmp_path, Stubborn) as running:
        pid = pid_of(running)
    assert not is_alive(pid)


SUPERVISE = """
import sys
from pathlib import Path
from tableflow_assets_tests.stack.test_supervisor import Parent, pid_of, supervisor
with supervisor(Path(sys.argv[1]), Parent) as running:
    print(pid_of(running), flush=True)
    running.wait()
"""


def test_the_next_start_ends_what_a_killed_supervisor_left(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SUPERVISE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        left = [int(killed.stdout.readline()), child_of(tmp_path)]
        killed.kill()
    assert all(is_alive(pid) for pid in left)
    assert not StackState.load(tmp_path).running
    report: list[str] = []
    with supervisor(tmp_path, Sleeper, report=report) as running:
        assert not any(is_alive(pid) for pid in left)
        assert "ending what an interrupted run left: sleeper" in report[0]
        assert is_alive(pid_of(running))


# After a reboot another program may have the pid that stack.json remembers.
def test_a_process_that_only_has_the_pid_of_a_leftover_is_left_alone(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    state = StackState(tmp_path, processes={"sleeper": ProcessRecord(stranger.pid, created=1.0)})
    state.save()
    with supervisor(tmp_path, Sleeper):
        assert is_alive(stranger.pid)


def test_stopping_leaves_processes_of_others_alone(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    with supervisor(tmp_path, Sleeper):
        pass
    assert is_alive(stranger.pid)


def test_stopping_twice_or_before_a_start_does_no_harm(tmp_path: Path) -> None:
    never = supervisor(tmp_path / "never", Sleeper)
    never.stop()
    assert not (tmp_path / "never").exists()
    with supervisor(tmp_path, Sleeper) as running:
        running.stop()
    assert StackState.load(tmp_path).processes == {}
