"""What keeps `pytest -m "not stack"` quick, and `pytest -n` from doing things twice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tableflow_assets.jvm.java import JAVA
from tableflow_assets_tests.support.workers import TOGETHER, unit_of_work

TESTS = Path(__file__).parents[1]


def test_a_test_without_the_mark_cannot_start_a_server() -> None:
    with pytest.raises(AssertionError, match="mark it with @pytest"):
        subprocess.run([JAVA, "-version"], check=True)


@pytest.mark.stack
def test_one_with_the_mark_can() -> None:
    subprocess.run([JAVA, "-version"], check=True, capture_output=True)


def test_what_uses_the_stack_is_marked_by_itself(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "from tableflow_assets_tests.conftest import pytest_collection_modifyitems  # noqa: F401\n"
        "import pytest\n"
        "@pytest.fixture\n"
        "def stack(): ...\n"
        "@pytest.fixture\n"
        "def table(stack): ...\n"
    )
    pytester.makeini("[pytest]\nmarkers = stack: needs servers\n")
    pytester.makepyfile(
        "def test_quick(): ...\ndef test_direct(stack): ...\ndef test_indirect(table): ...\n"
    )
    pytester.runpytest_inprocess("-m", "not stack").assert_outcomes(passed=1, deselected=2)


def test_files_that_share_a_server_are_the_work_of_one_worker() -> None:
    for name, paths in TOGETHER.items():
        for path in paths:
            assert (TESTS / path).exists(), path
            test = f"{TESTS.name}/{path}" + ("test_it.py" if path.endswith("/") else "")
            assert unit_of_work(f"{test}::test_x[1]") == name
    assert unit_of_work(f"{TESTS.name}/table/test_commit.py::test_x") not in TOGETHER
