"""What a stack remembers between starts."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tableflow_assets.base.errors import NewerFormat, StackError
from tableflow_assets.stack import embedded
from tableflow_assets.stack.state import PORT_NAMES, ProcessRecord, StackState, lock_folder


def started(folder: Path) -> StackState:
    """As a supervisor has it after choosing, in a folder made for it."""
    state = StackState.load(folder)
    state.make_folder()
    state.choose_ports_and_keys()
    return state


def this_process() -> ProcessRecord:
    return ProcessRecord(os.getpid(), psutil.Process().create_time())


def test_a_folder_without_a_stack_has_an_empty_state(tmp_path: Path) -> None:
    state = StackState.load(tmp_path / "never")
    assert (state.ports, state.running, state.ready) == ({}, False, False)


def test_what_was_saved_is_loaded_again(tmp_path: Path) -> None:
    state = started(tmp_path)
    state.supervisor = this_process()
    state.processes = {"kafka": ProcessRecord(1, 2.5, restarts=3)}
    state.ready = True
    state.save()
    assert StackState.load(tmp_path) == state


def test_a_stack_of_before_gets_a_token_at_its_next_start(tmp_path: Path) -> None:
    started(tmp_path).save()
    path = tmp_path / "stack.json"
    older = json.loads(path.read_text())
    del older["spark_token"]
    older["ports"]["code_server"] = 1  # which is no port any more
    path.write_text(json.dumps(older))
    assert embedded.spark_token(StackState.load(tmp_path)) is None  # its server asks for none
    again = started(tmp_path)
    assert embedded.spark_token(again) == again.spark_token != ""
    assert again.spark_token not in repr(again)
    assert "code_server" not in again.ports


@pytest.mark.parametrize("where", ["stack", "supervisor", "kafka"])
def test_what_a_newer_version_wrote_is_refused_by_name(tmp_path: Path, where: str) -> None:
    state = started(tmp_path)
    state.supervisor, state.processes = this_process(), {"kafka": ProcessRecord(1, 2.5)}
    state.save()
    path = tmp_path / "stack.json"
    newer = json.loads(path.read_text())
    parts = {
        "stack": newer,
        "supervisor": newer["supervisor"],
        "kafka": newer["processes"]["kafka"],
    }
    parts[where]["mood"] = "good"
    path.write_text(json.dumps(newer))
    with pytest.raises(NewerFormat, match="mood"):
        StackState.load(tmp_path)


def test_only_the_owner_may_read_the_credentials(tmp_path: Path) -> None:
    previous = os.umask(0)  # the widest that a user may have set
    try:
        started(tmp_path).save()
    finally:
        os.umask(previous)
    path = tmp_path / "stack.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["secret_key"]
    assert [entry.name for entry in tmp_path.glob("*.tmp")] == []


def test_every_server_gets_a_port_and_none_twice(tmp_path: Path) -> None:
    ports = started(tmp_path).ports
    assert set(ports) == set(PORT_NAMES)
    assert len(set(ports.values())) == len(PORT_NAMES)


def test_ports_and_keys_stay_from_one_start_to_the_next(tmp_path: Path) -> None:
    first = started(tmp_path)
    first.save()
    second = started(tmp_path)
    assert second.ports == first.ports
    assert (second.access_key, second.secret_key) == (first.access_key, first.secret_key)


def test_only_a_port_that_was_taken_meanwhile_changes(tmp_path: Path) -> None:
    first = started(tmp_path)
    first.save()
    with socket.create_server(("127.0.0.1", first.ports["spark"])):
        second = started(tmp_path)
    changed = {name for name in PORT_NAMES if first.ports[name] != second.ports[name]}
    assert changed == {"spark"}


def test_two_folders_have_credentials_of_their_own(tmp_path: Path) -> None:
    assert started(tmp_path / "a").secret_key != started(tmp_path / "b").secret_key


def test_a_second_lock_on_a_folder_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(StackError) as caught:
        lock_folder(tmp_path)
    assert str(tmp_path) in caught.value.problem
    assert "tableflow stack down" in caught.value.next_step
    lock_folder(tmp_path).close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    # Not by permissions: the tests may run as root, whom they do not stop.
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "state"
    with pytest.raises(StackError) as caught:
        StackState(folder).make_folder()
    assert f"{folder} cannot be written: Not a directory" in caught.value.problem
    assert "TABLEFLOW_STATE" in caught.value.next_step


def test_a_process_is_found_by_its_pid_and_start_time() -> None:
    record = this_process()
    process = record.find()
    assert process is not None
    assert process.pid == os.getpid()


def test_another_process_with_the_same_pid_is_not_taken_for_it() -> None:
    record = this_process()
    record.created -= 60
    assert record.find() is None


def test_a_process_that_ended_is_not_found_even_before_its_parent_has_noticed() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process = psutil.Process(child.pid)
    record = ProcessRecord(child.pid, process.create_time())
    assert record.find() is not None
    child.kill()
    deadline = time.monotonic() + 30
    while process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert record.find() is None
    child.communicate()
    assert record.find() is None


def test_a_stack_whose_supervisor_is_gone_does_not_run(tmp_path: Path) -> None:
    state = StackState(tmp_path, supervisor=this_process())
    assert state.running
    state.supervisor = ProcessRecord(os.getpid(), created=1.0)
    assert not state.running
