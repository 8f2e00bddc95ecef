"""Fixtures for tests of the whole program. $CAIRN_BIN names it; ctest sets it.

The tests fail without it: a test that quietly does not run protects nothing.
"""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from workspace import Workspace


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes a minute or more")


@pytest.fixture(scope="session")
def cairn_program() -> str:
    """Absolute path of the program under test."""
    given = os.environ.get("CAIRN_BIN", "")
    found = shutil.which(given) if given else None
    if not found:
        pytest.fail(
            f"CAIRN_BIN={given!r} is no program; set it to the cairn that is"
            " to be tested, e.g. build/dev/apps/cairn/cairn",
            pytrace=False,
        )
    return os.path.abspath(found)


@pytest.fixture
def cairn(cairn_program: str, tmp_path: pathlib.Path) -> Workspace:
    """A store with two empty tiers, initialised."""
    workspace = Workspace(cairn_program, tmp_path)
    workspace.init()
    return workspace
