"""Memory stays small, however large a checkpoint is or many its files.

By default at a scale that fits into every test run; CAIRN_FULL=1 takes the
sizes that the bound is promised for, 8 GiB and 100,000 files.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from cases import BLOCK, FULL, assert_same, listing, make, noise, write_files
from workspace import Workspace, tree_of

RESIDENT_MAX = 400 << 20
LARGE = (8 << 30) if FULL else (1 << 30)
FILES = 100_000 if FULL else 20_000
SECONDS_MAX = 600

# Of its own process, which is small: what a child inherits counts as its own.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(code, used * 1024)
"""


def measure(w: Workspace, *arguments: str) -> int:
    """Runs cairn; the most memory that it had."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", MEASURE, w.program, *arguments],
        cwd=w.directory,
        env=w.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    code, used = map(int, done.stdout.split())
    assert code == 0, done.stderr
    return used


def write_large(path: pathlib.Path, size: int) -> None:
    """Blocks of noise that all differ."""
    block = bytearray(noise(BLOCK))
    with open(path, "wb") as file:
        for number in range(size // BLOCK):
            block[0:8] = number.to_bytes(8, "little")
            file.write(block)


def digest(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def assert_small(used: dict[str, int]) -> None:
    shown = {verb: f"{peak / 2**20:.0f} MiB" for verb, peak in used.items()}
    print(shown)
    assert max(used.values()) < RESIDENT_MAX, shown


@pytest.mark.slow
def test_large_checkpoint(cairn: Workspace) -> None:
    """Scan, export, verify, restore of one large file."""
    folder = make(cairn, "run/step-1", {"small.raw": b"x"})
    write_large(folder / "large.raw", LARGE)
    before = digest(folder / "large.raw")
    used = {"scan": measure(cairn, "scan")}
    used["export"] = measure(cairn, "export", "run/step-1")
    used["verify"] = measure(cairn, "verify", "run/step-1")
    shutil.rmtree(folder)
    used["restore"] = measure(cairn, "restore", "run/step-1")
    assert digest(folder / "large.raw") == before
    shutil.rmtree(folder)
    assert_small(used)


@pytest.mark.slow
def test_many_files(cairn: Workspace) -> None:
    """The same of one checkpoint of many small files."""
    files = {f"{n // 1000:03}/{n:06}.raw": b"%d" % n * 20 for n in range(FILES)}
    folder = make(cairn, "run/step-1", files)
    before = tree_of(folder)
    used = {"scan": measure(cairn, "scan")}
    used["export"] = measure(cairn, "export", "run/step-1")
    used["scan again"] = measure(cairn, "scan")
    used["ls"] = measure(cairn, "ls")
    used["verify"] = measure(cairn, "verify", "run/step-1")
    shutil.rmtree(folder)
    used["restore"] = measure(cairn, "restore", "run/step-1")
    assert_same(before, folder)
    used["rebuild"] = measure(cairn, "rebuild")
    used["sweep"] = measure(cairn, "sweep")
    assert listing(cairn)["run/step-1"]["files"] == FILES + 1
    assert_small(used)


def test_many_checkpoints(cairn: Workspace) -> None:
    """And of many small checkpoints."""
    count = 2000 if FULL else 300
    for step in range(count):
        folder = cairn.accelerator / f"run-{step % 10}" / f"step-{step}"
        write_files(folder, {"w.raw": b"%d" % step, "DONE": b""})
    used = {"scan": measure(cairn, "scan")}
    used["export"] = measure(cairn, "export", "--all")
    used["scan again"] = measure(cairn, "scan")
    used["verify"] = measure(cairn, "verify", "--all")
    used["rebuild"] = measure(cairn, "rebuild")
    assert len(listing(cairn)) == count
    assert os.path.isdir(cairn.core / "run-0" / "step-0")
    assert_small(used)
