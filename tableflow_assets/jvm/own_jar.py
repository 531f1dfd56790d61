"""Our own Java as a jar: compiled once per state of its sources, and cached beside the others."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tableflow_assets.base.errors import StackError
from tableflow_assets.jvm.jars import cache_dir, ensure_jars, jars_of, spark_folder
from tableflow_assets.jvm.java import java_command

SOURCES = Path(__file__).with_name("tableflow")
JAVA_VERSION = "17"  # the oldest that Spark runs on


def own_jar() -> Path:
    """Its path, whether or not it exists: the name changes with the sources, the compiler and Spark."""
    import pyspark

    ingredients = [path.read_bytes() for path in _sources()]
    ingredients += [jar.name.encode() for jar in (*jars_of("compiler"), *_kafka_client())]
    ingredients += [pyspark.__version__.encode(), JAVA_VERSION.encode()]
    digest = hashlib.sha256(b"\0".join(ingredients)).hexdigest()[:16]
    return cache_dir() / "jars" / f"tableflow-{digest}.jar"


def ensure_own_jar() -> Path:
    """Compile it if it does not exist yet."""
    jar = own_jar()
    if jar.is_file():
        return jar
    ensure_jars()
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, packed = Path(folder, "classes"), Path(folder, jar.name)
        _compile(classes)
        _pack(classes, packed)
        packed.replace(jar)  # another process may have been faster, but its jar is the same
    return jar


def _kafka_client() -> list[Path]:
    """The one that Spark has: pyspark itself comes without."""
    return [jar for jar in jars_of("spark") if "kafka-clients" in jar.name]


def _sources() -> list[Path]:
    return sorted(SOURCES.glob("*.java"))


def _compile(classes: Path) -> None:
    command = [
        *java_command(),
        *("-cp", ":".join(str(jar) for jar in jars_of("compiler"))),
        "org.eclipse.jdt.internal.compiler.batch.Main",
        *(f"-{JAVA_VERSION}", "-proc:none", "-nowarn", "-d", str(classes)),
        *(
            "-cp",
            ":".join(str(jar) for jar in (*sorted(spark_folder().glob("*.jar")), *_kafka_client())),
        ),
        *(str(path) for path in _sources()),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise StackError(
            f"The functions that Spark needs could not be compiled: {result.stderr.strip()}",
            "Install the versions that constraints.txt names: `make install` does.",
        )


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(classes.rglob("*.class")):
            archive.write(path, path.relative_to(classes))
