"""The demo itself: it checks its own claims, and has to come to its end here.

Training runs twice in two ways, is killed in the middle of a save, wiped,
restored and resumed; see examples/demo.py.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from workspace import Workspace

DEMO = pathlib.Path(__file__).resolve().parents[2] / "examples" / "demo.py"
SECONDS_MAX = 540


@pytest.mark.slow
def test_demo(cairn_program: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    work = tmp_path / "demo"
    environment = Workspace(cairn_program, tmp_path / "unused").environment

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(DEMO), "--work", str(work)],
            env={**environment, "CAIRN_BIN": cairn_program},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX / 2,
        )

    done = run()
    if "terminated with signal SIGABRT" in done.stdout:
        # gloo aborts a trainer once in a while, with or without cairn beside
        # it; that is not what is tested here. A second time it would be.
        done = run()
    assert done.returncode == 0, done.stdout
    assert "[NOT TRUE]" not in done.stdout
    assert "bit for bit" in done.stdout
    assert (work / "report.txt").read_text().rstrip().endswith("checks hold.")
    assert (work / "lm.svg").read_text().startswith("<svg")
