"""The archives' cache, without a network: Ivy's place is taken by files that the test writes."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from tableflow_assets.base.errors import StackError
from tableflow_assets.jvm import jars
from tableflow_assets.jvm.jars import Jar, cache_dir, ensure_jars, jars_of

CONTENT = {"alpha": b"the first archive", "beta": b"the second, somewhat longer archive"}
Repository = dict[str, bytes]  # what a download of each name brings


def locked(name: str) -> Jar:
    content = CONTENT[name]
    digest = hashlib.sha256(content).hexdigest()
    return Jar("kafka", "org.test", name, "1.0", sha256=digest, bytes=len(content))


LOCK = [locked("alpha"), locked("beta")]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were fetched, in order."""
    return []


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fetched: list[str]) -> Repository:
    """A lock of two small archives, an empty cache, and the place that they are fetched from."""
    content = dict(CONTENT)
    lock = tmp_path / "lock.json"
    lock.write_text(json.dumps([asdict(jar) for jar in LOCK]))
    monkeypatch.setattr(jars, "LOCK_FILE", lock)
    monkeypatch.setenv("TABLEFLOW_CACHE", str(tmp_path / "cache"))

    def retrieve(missing: list[Jar], download: Path) -> None:
        (download / "retrieved").mkdir(parents=True)
        for jar in missing:
            fetched.append(jar.name)
            (download / "retrieved" / jar.file_name).write_bytes(content[jar.name])

    monkeypatch.setattr(jars, "_retrieve", retrieve)
    return content


def refusal(action: Callable[[], None]) -> StackError:
    with pytest.raises(StackError) as caught:
        action()
    assert caught.value.next_step
    return caught.value


@pytest.mark.parametrize(
    ("jar", "name"),
    [
        (
            Jar("s", "org.apache.kafka", "kafka_2.13", "4.1.0"),
            "org.apache.kafka.kafka_2.13-4.1.0.jar",
        ),
        (Jar("s", "o", "n", "1", classifier="test"), "o.n-1-test.jar"),
        (Jar("s", "o", "n", "1", extension="tar.gz"), "o.n-1.tar.gz"),
        (Jar("s", "o", "n", "1", classifier="all", extension="zip"), "o.n-1-all.zip"),
    ],
)
def test_a_file_is_named_by_all_that_names_the_archive(jar: Jar, name: str) -> None:
    assert jar.file_name == name


def test_the_shipped_lock_is_complete_and_names_no_file_twice_for_a_server() -> None:
    shipped = jars.locked_jars()
    assert {jar.server for jar in shipped} == {"compiler", "kafka", "registry", "spark"}
    assert all(len(jar.sha256) == 64 and jar.bytes > 0 for jar in shipped)
    places = [(jar.server, jar.file_name) for jar in shipped]
    assert len(places) == len(set(places))


def test_the_cache_is_where_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.delenv("TABLEFLOW_CACHE", raising=False)
    assert cache_dir() == Path("/xdg/tableflow-assets")
    monkeypatch.setenv("TABLEFLOW_CACHE", "/chosen")
    assert cache_dir() == Path("/chosen")


def test_missing_archives_are_fetched_and_kept(repository: Repository) -> None:
    ensure_jars()
    assert [path.read_bytes() for path in jars_of("kafka")] == list(CONTENT.values())
    assert [path.name for path in (cache_dir() / "jars").iterdir() if path.is_dir()] == []


def test_an_archive_of_two_servers_is_fetched_once_and_both_have_it(
    repository: Repository, fetched: list[str]
) -> None:
    shared = replace(LOCK[0], server="spark")
    jars.LOCK_FILE.write_text(json.dumps([asdict(jar) for jar in (*LOCK, shared)]))
    ensure_jars()
    assert fetched.count("alpha") == 1
    assert jars_of("spark") == [jars_of("kafka")[0]]
    assert jars_of("spark")[0].read_bytes() == CONTENT["alpha"]


def test_archives_that_are_there_are_not_fetched_again(
    repository: Repository, fetched: list[str]
) -> None:
    ensure_jars()
    ensure_jars()
    assert fetched == ["alpha", "beta"]


def test_of_two_processes_that_need_them_one_fetches_and_the_other_waits(
    repository: Repository, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    retrieve, others = jars._retrieve, list[Future[None]]()

    def retrieve_while_another_asks(missing: list[Jar], download: Path) -> None:
        others.append(pool.submit(ensure_jars))
        time.sleep(0.2)
        retrieve(missing, download)

    monkeypatch.setattr(jars, "_retrieve", retrieve_while_another_asks)
    with ThreadPoolExecutor() as pool:
        ensure_jars()
        others[0].result(timeout=10)
    assert fetched == ["alpha", "beta"]


def test_a_file_cut_short_is_fetched_again(repository: Repository, fetched: list[str]) -> None:
    ensure_jars()
    jars_of("kafka")[1].write_bytes(b"the sec")
    ensure_jars()
    assert fetched == ["alpha", "beta", "beta"]
    assert jars_of("kafka")[1].read_bytes() == CONTENT["beta"]


def test_a_corrupt_download_is_refused_by_its_checksum(repository: Repository) -> None:
    repository["beta"] = b"tampered".ljust(len(CONTENT["beta"]))
    problem = refusal(ensure_jars).problem
    assert LOCK[1].file_name in problem
    assert LOCK[1].sha256 in problem
    assert hashlib.sha256(repository["beta"]).hexdigest() in problem
    assert not jars_of("kafka")[1].exists()


def test_after_a_corrupt_download_only_what_is_missing_is_fetched_anew(
    repository: Repository, fetched: list[str]
) -> None:
    repository["beta"] = b"tampered"
    refusal(ensure_jars)
    repository["beta"] = CONTENT["beta"]
    ensure_jars()
    assert fetched == ["alpha", "beta", "beta"]
    assert all(path.exists() for path in jars_of("kafka"))


def test_a_full_disk_is_noticed_before_anything_is_fetched(
    repository: Repository, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = [asdict(jar) | {"bytes": 50 << 20} for jar in LOCK]
    jars.LOCK_FILE.write_text(json.dumps(large))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 << 20))
    error = refusal(ensure_jars)
    assert "3 MB free" in error.problem
    assert "need 200 MB" in error.problem
    assert "TABLEFLOW_CACHE" in error.next_step
    assert fetched == []


def test_a_cache_folder_that_cannot_be_written_is_named(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TABLEFLOW_CACHE", str(tmp_path / "file"))
    error = refusal(ensure_jars)
    assert f"{tmp_path / 'file' / 'jars'} cannot be written" in error.problem
    assert "TABLEFLOW_CACHE" in error.next_step


def test_the_file_for_ivy_asks_for_all_artifacts_of_a_module_and_nothing_else() -> None:
    artifacts = [
        Jar("s", "org.a", "one", "1.0"),
        Jar("s", "org.a", "one", "1.0", classifier="test"),
        Jar("s", "org.b", "two & more", "2.0", extension="tar.gz"),
    ]
    root = ET.fromstring(jars._ivy_file(artifacts))  # noqa: S314  (our own text)
    classifier = "{http://ant.apache.org/ivy/maven}classifier"
    files = [
        (d.get("org"), d.get("name"), d.get("rev"), [(a.get("ext"), a.get(classifier)) for a in d])
        for d in root.iter("dependency")
    ]
    assert files == [
        ("org.a", "one", "1.0", [("jar", None), ("jar", "test")]),
        ("org.b", "two & more", "2.0", [("tar.gz", None)]),
    ]
    assert all(d.get("transitive") == "false" for d in root.iter("dependency"))
