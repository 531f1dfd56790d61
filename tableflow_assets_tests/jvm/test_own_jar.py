"""Our Java, compiled: once, whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest

from tableflow_assets.base.errors import StackError
from tableflow_assets.jvm import own_jar as jar
from tableflow_assets.jvm.jars import cache_dir, ensure_jars, jars_of


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the archives of others, and none of ours."""
    ensure_jars()
    full = cache_dir() / "jars"
    shutil.copytree(full, tmp_path / "jars", copy_function=lambda src, to: Path(to).symlink_to(src))
    for path in (tmp_path / "jars").glob("tableflow-*.jar"):
        path.unlink()
    monkeypatch.setenv("TABLEFLOW_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "sources"
    shutil.copytree(jar.SOURCES, copy)
    monkeypatch.setattr(jar, "SOURCES", copy)
    return copy


@pytest.mark.stack
def test_it_is_compiled_once(own_cache: Path) -> None:
    compiled = jar.ensure_own_jar()
    assert compiled.parent == own_cache / "jars"
    assert "tableflow/JsonFunctions.class" in ZipFile(compiled).namelist()
    when = compiled.stat().st_mtime_ns
    assert jar.ensure_own_jar() == compiled
    assert compiled.stat().st_mtime_ns == when


def test_other_sources_are_another_archive(sources: Path) -> None:
    before = jar.own_jar()
    (sources / "Misfit.java").write_text((sources / "Misfit.java").read_text() + "\n// changed\n")
    assert jar.own_jar() != before


@pytest.mark.stack
def test_what_does_not_compile_is_told_and_leaves_nothing(own_cache: Path, sources: Path) -> None:
    (sources / "Misfit.java").write_text("package tableflow; final class Misfit { int x = y; }")
    before = set((own_cache / "jars").iterdir())
    with pytest.raises(StackError, match="y cannot be resolved"):
        jar.ensure_own_jar()
    assert set((own_cache / "jars").iterdir()) == before


def test_the_compiler_is_one_archive() -> None:
    assert len(jars_of("compiler")) == 1
