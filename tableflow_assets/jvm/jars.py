"""The servers' jars: pinned in ``jars.lock.json``, fetched once into a cache, checked by hash.

``python -m tableflow_assets.jvm.jars`` fills in the hashes of entries that were added to the lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tableflow_assets.base.errors import StackError
from tableflow_assets.jvm.java import java_command, write_trust_store

LOCK_FILE = Path(__file__).with_name("jars.lock.json")
POLL_SECONDS = 0.25

Progress = Callable[[int, int], None]  # bytes so far, bytes in all


@dataclass(frozen=True)
class Jar:
    server: str
    organisation: str
    name: str
    version: str
    classifier: str = ""
    extension: str = "jar"
    sha256: str = ""
    bytes: int = 0

    @property
    def file_name(self) -> str:
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.organisation}.{self.name}-{self.version}{classifier}.{self.extension}"


def locked_jars() -> list[Jar]:
    return [Jar(**entry) for entry in json.loads(LOCK_FILE.read_text())]


def cache_dir() -> Path:
    """``TABLEFLOW_CACHE``, or the user's cache folder, which all checkouts on a machine share."""
    if folder := os.environ.get("TABLEFLOW_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tableflow-assets"


def jars_of(server: str) -> list[Path]:
    """The cached files of one server, in lock order; call ``ensure_jars`` first."""
    return [cache_dir() / "jars" / jar.file_name for jar in locked_jars() if jar.server == server]


def spark_folder() -> Path:
    """Where pyspark keeps Spark's own jars."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def ensure_jars(on_progress: Progress | None = None) -> None:
    """Fetch what is missing and check it against the lock. Quick if nothing is."""
    folder = cache_dir() / "jars"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StackError(
            f"The cache folder {folder} cannot be written: {error.strerror}",
            "Set TABLEFLOW_CACHE to a folder you may write to.",
        ) from error
    # Two servers may need the same file.
    jars = list({jar.file_name: jar for jar in locked_jars()}.values())
    missing = _missing(folder, jars)
    if not missing:
        return
    done_before = sum(jar.bytes for jar in jars) - sum(jar.bytes for jar in missing)
    total = sum(jar.bytes for jar in jars)
    # Ivy's own cache lies inside ours, so that an interrupted download resumes where it stopped.
    download = folder / "ivy"
    with (
        _watch(download, lambda n: on_progress and on_progress(done_before + n, total)),
        _alone(folder),
    ):
        if missing := _missing(folder, jars):  # another process may have fetched them meanwhile
            _refuse_a_full_disk(folder, missing)
            _retrieve(missing, download)
            for jar in missing:
                _check_and_keep(download / "retrieved" / jar.file_name, folder, jar)
            shutil.rmtree(download, ignore_errors=True)


def _missing(folder: Path, jars: Iterable[Jar]) -> list[Jar]:
    return [jar for jar in jars if not _is_there(folder, jar)]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for another process that fills this cache: Ivy does not share its folder."""
    with (folder / "fetching.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_there(folder: Path, jar: Jar) -> bool:
    # Files enter the folder only through _check_and_keep, by rename, so name and size are proof enough.
    path = folder / jar.file_name
    return path.is_file() and path.stat().st_size == jar.bytes


def _refuse_a_full_disk(folder: Path, missing: list[Jar]) -> None:
    needed = 2 * sum(jar.bytes for jar in missing)  # Ivy keeps its own copy until the end
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StackError(
            f"{folder} has {free >> 20} MB free; the servers' archives need {needed >> 20} MB.",
            "Free some space, or set TABLEFLOW_CACHE to a folder on another disk.",
        )


def _check_and_keep(downloaded: Path, folder: Path, jar: Jar) -> None:
    digest = _sha256(downloaded)
    if digest != jar.sha256:
        downloaded.unlink(missing_ok=True)
        shutil.rmtree(folder / "ivy", ignore_errors=True)
        raise StackError(
            f"{jar.file_name} has the checksum {digest}; the lock says {jar.sha256}.",
            "Run again: the file is fetched again. If this persists, do not trust the repository.",
        )
    downloaded.replace(folder / jar.file_name)


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _retrieve(jars: list[Jar], download: Path) -> None:
    """Let Ivy (pyspark ships it) fetch exactly these files into ``download/retrieved``."""
    download.mkdir(parents=True, exist_ok=True)
    (download / "ivysettings.xml").write_text(_IVY_SETTINGS)
    trust_store = write_trust_store(download / "trust.p12")
    # One call per server: within a call Ivy would evict the older of two versions of a module.
    for server in sorted({jar.server for jar in jars}):
        (download / "ivy.xml").write_text(_ivy_file(jar for jar in jars if jar.server == server))
        _run_ivy(download, trust_store)


def _run_ivy(download: Path, trust_store: Path) -> None:
    pattern = "[organisation].[artifact]-[revision](-[classifier]).[ext]"
    command = [
        *java_command(trust_store),
        *("-cp", str(_ivy_jar()), "org.apache.ivy.Main"),
        *("-settings", str(download / "ivysettings.xml")),
        *("-cache", str(download / "cache")),
        *("-ivy", str(download / "ivy.xml")),
        *("-retrieve", f"{download}/retrieved/{pattern}"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    log = download / "ivy.log"
    log.write_text(result.stdout + result.stderr)
    if result.returncode != 0 or "UNRESOLVED DEPENDENCIES" in result.stdout:
        raise StackError(
            f"Not all of the servers' archives could be fetched (see {log}).",
            "Check the network and run again: what has arrived is kept.",
        )


def _ivy_jar() -> Path:
    return next(spark_folder().glob("ivy-*.jar"))


# An m2compatible resolver defaults to Maven Central; poms are not needed, because the lock is complete.
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


def _ivy_file(jars: Iterable[Jar]) -> str:
    modules: dict[tuple[str, str, str], str] = {}
    for jar in jars:
        key = (jar.organisation, jar.name, jar.version)
        modules[key] = modules.get(key, "") + _ivy_artifact(jar)
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(organisation)} name={quoteattr(name)}"
        f' rev={quoteattr(version)} transitive="false" conf="default->*">{artifacts}</dependency>'
        for (organisation, name, version), artifacts in modules.items()
    )
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="tableflow" module="stack"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def _ivy_artifact(jar: Jar) -> str:
    classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
    extension = quoteattr(jar.extension)
    return f"<artifact name={quoteattr(jar.name)} type={extension} ext={extension}{classifier}/>"


class _watch:
    """Reports the bytes below a folder while Ivy, which has no progress callback, fills it."""

    def __init__(self, folder: Path, report: Callable[[int], object]) -> None:
        self._folder, self._report = folder / "cache", report
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self._report(sum(_size(path) for path in self._folder.rglob("*")))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # Ivy renames its .part files while we look
        return 0


def relock() -> None:
    """Write hash and size of every entry of the lock, from what the repository has now."""
    with tempfile.TemporaryDirectory() as scratch:
        jars = locked_jars()
        _retrieve(jars, Path(scratch))
        entries = []
        for jar in jars:
            path = Path(scratch) / "retrieved" / jar.file_name
            facts = {"sha256": _sha256(path), "bytes": path.stat().st_size}
            entries.append({key: value for key, value in (asdict(jar) | facts).items() if value})
    LOCK_FILE.write_text("[\n" + ",\n".join(f"  {json.dumps(e)}" for e in entries) + "\n]\n")


if __name__ == "__main__":
    relock()
    sys.stdout.write(f"{LOCK_FILE.name} is up to date\n")
