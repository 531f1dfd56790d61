"""A first load in bounded batches, killed along the way: is it complete, and does memory stay flat?"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time

import psutil
from rich.progress import Progress, TaskID

from tableflow_assets.base.errors import StackError
from tableflow_assets.bench.bulk_topic import BulkTopic
from tableflow_assets.operate.status import status
from tableflow_assets.settings.settings import Settings, Topic, load_settings
from tableflow_assets.stack.state import StackState
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import verify

PARTITIONS = 6
SAMPLE_SECONDS = 0.1
MIB = 2**20


class _Peak:
    """The largest resident memory of a process, sampled ten times a second."""

    def __init__(self) -> None:
        self.mib = 0

    def look_at(self, pid: int) -> None:
        try:
            self.mib = max(self.mib, psutil.Process(pid).memory_info().rss // MIB)
        except psutil.NoSuchProcess:
            return

    def watch(self, pid: int, until: threading.Event) -> None:
        while not until.wait(SAMPLE_SECONDS):
            self.look_at(pid)


def measure_first_load(
    settings: Settings, records: int, batch: int, kills: int, progress: Progress
) -> dict[str, object]:
    """Load ``records`` while killing the driver ``kills`` times; measure driver and Spark memory peaks."""
    tableflow = Tableflow(settings)
    bulk = BulkTopic(settings, f"load-{records}", PARTITIONS)
    task = progress.add_task(f"{records} records", total=records)
    bulk.send(range(records))
    chance = random.Random(kills)  # noqa: S311  (no secret)
    # The number of rows at which each driver is killed.
    victims = sorted(chance.sample(range(records * 9 // 10), kills))
    topic = Topic(name=bulk.name, max_records=batch)
    driver, spark, stop = _Peak(), _Peak(), threading.Event()
    spark_pid = StackState.load(settings.state_dir).processes["spark"].pid
    watcher = threading.Thread(target=spark.watch, args=(spark_pid, stop), daemon=True)
    watcher.start()
    began = time.monotonic()
    was_killed = [_drive(tableflow, topic, at, driver, progress, task) for at in (*victims, None)]
    seconds = time.monotonic() - began
    stop.set()
    watcher.join()
    results = verify(tableflow.log, tableflow.catalog, topic)
    return {
        "records": records,
        "batch": batch,
        "kills": sum(was_killed),
        "seconds": round(seconds, 1),
        "driver_peak_mib": driver.mib,
        "spark_peak_mib": spark.mib,
        "rows": sum(result.rows for result in results),
        "missing": sum(result.missing for result in results),
        "duplicated": sum(result.duplicated for result in results),
    }


def _drive(
    tableflow: Tableflow,
    topic: Topic,
    kill_at: int | None,
    peak: _Peak,
    progress: Progress,
    task: TaskID,
) -> bool:
    """Run a driver process until it is done, or kill it once the table has ``kill_at`` rows."""
    command = [sys.executable, "-m", __name__, topic.name, str(topic.max_records)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    while process.poll() is None:
        peak.look_at(process.pid)
        rows = status(tableflow.log, tableflow.catalog, topic).rows
        progress.update(task, completed=rows)
        if kill_at is not None and rows >= kill_at:
            # Not right after a commit, but somewhere within the next one.
            time.sleep(random.uniform(0, 2))  # noqa: S311  (no secret)
            process.kill()
        time.sleep(SAMPLE_SECONDS)
    errors = process.communicate()[1].decode()
    if process.returncode > 0:
        raise StackError(f"The driver failed: {errors[-1000:]}", "See the log of the Spark server.")
    return process.returncode < 0


def main() -> None:
    """The driver: load one topic to its end."""
    name, batch = sys.argv[1:]
    tableflow = Tableflow(load_settings())
    tableflow.pipeline(Topic(name=name, max_records=int(batch))).catch_up("bench")


if __name__ == "__main__":
    main()
