"""A Dagster project of somebody else's, made by `create-dagster`, with assets and resources of its own.

It is not installed, and nothing is downloaded: `dg` finds it, and this checkout, on the Python path.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
NAME = "hostproj"
GROUP = "dagster_dg_cli.registry_modules"

ASSETS = '''\
import dagster as dg


class Kafka(dg.ConfigurableResource):
    """Not Tableflow's, although it is called as that could be."""

    address: str


@dg.asset
def customers(kafka: Kafka) -> None:
    """Who buys."""


@dg.asset(deps=[customers])
def invoices() -> None:
    """What they pay."""


@dg.asset_check(asset=invoices)
def add_up() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)
'''
SURROUNDINGS = '''\
import dagster as dg
from hostproj.defs.sales import Kafka


class Jealous(dg.IOManager):
    """Fails as soon as it is given what is not the host's."""

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        raise AssertionError(f"the host's IO manager got {obj!r}")

    def load_input(self, context: dg.InputContext) -> object:
        raise AssertionError("the host's IO manager was asked for a value")


@dg.definitions
def surroundings() -> dg.Definitions:
    return dg.Definitions(
        resources={
            "kafka": Kafka(address="elsewhere"),
            "catalog": dg.ResourceDefinition.hardcoded_resource("of seeds"),
            "io_manager": Jealous(),
        },
        executor=dg.multiprocess_executor,
    )
'''


@dataclass(frozen=True)
class HostProject:
    folder: Path
    installed: Path  # what says that Tableflow Assets is installed

    @property
    def defs(self) -> Path:
        return self.folder / "src" / NAME / "defs"

    @property
    def settings_file(self) -> Path:
        return self.defs / "streams" / "tableflow.yaml"

    def run(self, *command: str, **variables: str) -> str:
        """What a program of this Python prints, run in the project's folder."""
        return _run(self.folder, self._environment() | variables, *command)

    def _environment(self) -> dict[str, str]:
        on_the_path = (self.folder / "src", self.installed, CHECKOUT)
        return _environment(on_the_path)


def create_host_project(folder: Path) -> HostProject:
    _run(folder, _environment(()), "create-dagster", "project", "--no-uv-sync", NAME)
    host = HostProject(folder / NAME, folder / "installed")
    _say_that_tableflow_is_installed(host.installed)
    (host.defs / "sales.py").write_text(ASSETS)
    (host.defs / "surroundings.py").write_text(SURROUNDINGS)
    return host


def _say_that_tableflow_is_installed(folder: Path) -> None:
    """As pip would, from setup.cfg: this Python may know a checkout from before its last change."""
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg")
    about = folder / "tableflow_assets-0.dist-info"
    about.mkdir(parents=True)
    name, version = (setup["metadata"][key] for key in ("name", "version"))
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    entries = setup["options.entry_points"][GROUP].strip()
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n")


def _environment(python_path: tuple[Path, ...]) -> dict[str, str]:
    programs = str(Path(sys.executable).parent)
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", ""),
        "VIRTUAL_ENV": str(Path(programs).parent),
        "PYTHONPATH": ":".join(map(str, python_path)),
        "PYTHONWARNINGS": "ignore",
        "DAGSTER_DG_UPDATE_CHECK_ENABLED": "0",
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "COLUMNS": "200",
    }


def _run(folder: Path, environment: dict[str, str], *command: str) -> str:
    finished = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    said = f"{' '.join(command)}\n{finished.stdout}\n{finished.stderr}"
    assert finished.returncode == 0, said
    return finished.stdout
