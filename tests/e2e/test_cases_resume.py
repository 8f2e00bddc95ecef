"""Interrupted exports and restores: what is there is not sent again (T05).

B26, B28, B30. The proxies of B26 and B28 that count bodies wait for an object
server; what cairn says it moved is compared with the files here. "A transfer
limit" of B28 does not exist in cairn.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import signal
import time

import pytest
from cases import (
    BLOCK,
    archive,
    flip,
    kill_at,
    listing,
    make,
    noise,
    objects,
    result_of,
    staging,
    start,
)
from workspace import Workspace

BLOCKS = 5
SIZE = BLOCKS * BLOCK - 12_345
SHARE_MAX = 0.45  # Of the file, to be moved after a kill at 60 percent.


def make_large(w: Workspace) -> pathlib.Path:
    folder = make(w, "run/step-1", {"large.raw": noise(SIZE)})
    w.run("scan")
    return folder


def test_export_goes_on_inside_a_file(cairn: Workspace) -> None:
    """B26: killed at 60 percent, at most 45 percent are sent again."""
    folder = make_large(cairn)
    kill_at(cairn, "export.after_part:3", "export", "run/step-1")
    assert not listing(cairn)["run/step-1"]["archived"]
    assert "run/step-1/large.raw" not in objects(cairn)
    uploads = [
        item
        for item in cairn.json("sweep", "--dry-run")["items"]
        if item["what"] == "upload"
    ]
    assert [item["name"] for item in uploads] == ["run/step-1/large.raw"]

    outcome = result_of(cairn.json("export", "run/step-1"), "run/step-1")
    assert outcome["bytes"] <= SHARE_MAX * SIZE
    assert outcome["bytes"] + outcome["bytes_skipped"] == SIZE
    assert listing(cairn)["run/step-1"]["archived"]
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    assert (folder / "large.raw").read_bytes() == noise(SIZE)


def test_export_goes_on_without_its_catalog(cairn: Workspace) -> None:
    """B26: the same where the catalog, too, was lost with the machine."""
    make_large(cairn)
    kill_at(cairn, "export.after_part:3", "export", "run/step-1")
    shutil.rmtree(cairn.directory / "cairn-state")
    outcome = result_of(cairn.json("export", "run/step-1"), "run/step-1")
    assert outcome["bytes"] <= SHARE_MAX * SIZE
    cairn.run("verify", "run/step-1")


def test_export_goes_on_among_files(cairn: Workspace) -> None:
    """B26: many small files; those that are there are not sent again."""
    files = {f"{n:02}.raw": noise(30_000, n) for n in range(50)}
    make(cairn, "run/step-1", files)
    cairn.run("scan")
    kill_at(cairn, "export.after_object:30", "export", "run/step-1")
    assert not listing(cairn)["run/step-1"]["archived"]
    outcome = result_of(cairn.json("export", "run/step-1"), "run/step-1")
    assert outcome["bytes"] <= SHARE_MAX * 50 * 30_000
    cairn.run("verify", "run/step-1")


def archived_and_gone(w: Workspace) -> pathlib.Path:
    folder = make_large(w)
    archive(w)
    shutil.rmtree(folder)
    return folder


def assert_restored(w: Workspace, folder: pathlib.Path) -> None:
    assert (folder / "large.raw").read_bytes() == noise(SIZE)
    assert staging(w) == []
    w.run("verify", "run/step-1")


def test_restore_goes_on_inside_a_file(cairn: Workspace) -> None:
    """B26: the same on the way back."""
    folder = archived_and_gone(cairn)
    kill_at(cairn, "restore.after_block:3", "restore", "run/step-1")
    assert not folder.exists()
    report = cairn.json("restore", "run/step-1")
    assert report["bytes"] <= SHARE_MAX * SIZE
    assert report["bytes"] + report["bytes_skipped"] == SIZE
    assert_restored(cairn, folder)


def partial_of(w: Workspace) -> pathlib.Path:
    (attempt,) = staging(w)
    folder = w.accelerator / ".cairn" / "staging" / attempt
    (found,) = folder.rglob("large.raw")
    return found


def test_restore_whose_partial_file_is_gone(cairn: Workspace) -> None:
    """B30, A: a fresh download."""
    folder = archived_and_gone(cairn)
    kill_at(cairn, "restore.after_block:3", "restore", "run/step-1")
    partial_of(cairn).unlink()
    assert cairn.json("restore", "run/step-1")["bytes"] == SIZE
    assert_restored(cairn, folder)


def test_restore_whose_partial_file_is_cut(cairn: Workspace) -> None:
    """B30, B: from verified bytes only, and no hole is left."""
    folder = archived_and_gone(cairn)
    kill_at(cairn, "restore.after_block:3", "restore", "run/step-1")
    partial = partial_of(cairn)
    with open(partial, "r+b") as file:
        file.truncate(SIZE // 10)
    report = cairn.json("restore", "run/step-1")
    assert report["bytes"] >= SIZE - SIZE // 10
    assert_restored(cairn, folder)


def test_restore_whose_partial_file_is_corrupt(cairn: Workspace) -> None:
    """B30: a bad block in what is there is fetched again, and only that."""
    folder = archived_and_gone(cairn)
    kill_at(cairn, "restore.after_block:5", "restore", "run/step-1")
    flip(partial_of(cairn), 2 * BLOCK + 77)
    report = cairn.json("restore", "run/step-1")
    assert report["bytes"] == BLOCK
    assert_restored(cairn, folder)


def test_restore_whose_notes_are_corrupt(cairn: Workspace) -> None:
    """B30, C: whatever else lies in the attempt's directory is garbage now."""
    folder = archived_and_gone(cairn)
    kill_at(cairn, "restore.after_block:3", "restore", "run/step-1")
    attempt = cairn.accelerator / ".cairn" / "staging" / staging(cairn)[0]
    for path in attempt.iterdir():
        if path.is_file():
            path.write_bytes(b"\xff garbage")
    cairn.run("restore", "run/step-1")
    assert_restored(cairn, folder)


def test_restore_over_a_corrupt_catalog(cairn: Workspace) -> None:
    """B30, C: the other thing that remembers is the catalog."""
    folder = archived_and_gone(cairn)
    kill_at(cairn, "restore.after_block:3", "restore", "run/step-1")
    shutil.rmtree(cairn.directory / "cairn-state")
    report = cairn.json("restore", "run/step-1")
    assert report["bytes"] <= SHARE_MAX * SIZE
    assert_restored(cairn, folder)


@pytest.mark.parametrize("passage", [1, 2, 3, 4, 5])
def test_killed_restore_leaves_no_cut_file(
    cairn: Workspace, passage: int
) -> None:
    """B28: the final name is absent or right, never cut or zeros."""
    folder = archived_and_gone(cairn)
    kill_at(cairn, f"restore.after_block:{passage}", "restore", "run/step-1")
    assert not folder.exists()
    cairn.run("restore", "run/step-1")
    assert_restored(cairn, folder)


def test_interrupted_restore_leaves_no_cut_file(cairn: Workspace) -> None:
    """B28: the same with SIGINT, at moments of chance."""
    folder = archived_and_gone(cairn)
    began = time.monotonic()
    cairn.run("restore", "run/step-1")
    took = time.monotonic() - began
    interrupted = 0
    for seed in range(5):
        shutil.rmtree(folder)
        process = start(cairn, "restore", "run/step-1")
        time.sleep(random.Random(seed).random() * took)
        process.send_signal(signal.SIGINT)
        process.communicate()
        interrupted += process.returncode != 0
        if folder.exists():
            assert (folder / "large.raw").read_bytes() == noise(SIZE)
        cairn.run("restore", "run/step-1")
        assert_restored(cairn, folder)
    assert interrupted > 0


def test_sweep_takes_what_nobody_goes_on_with(cairn: Workspace) -> None:
    """B28, B60: leftovers are named with their size, and gone when swept."""
    folder = archived_and_gone(cairn)
    make(cairn, "run/step-2", {"large.raw": noise(2 * BLOCK)})
    cairn.run("scan")
    kill_at(cairn, "restore.after_block:3", "restore", "run/step-1")
    kill_at(cairn, "export.after_part:1", "export", "run/step-2")
    plan = cairn.json("sweep", "--dry-run")["items"]
    assert sorted(item["what"] for item in plan) == ["staging", "upload"]
    assert all(not item["removed"] for item in plan)
    done = cairn.json("sweep")["items"]
    assert [(i["what"], i["name"]) for i in done] == [
        (i["what"], i["name"]) for i in plan
    ]
    assert all(item["removed"] for item in done)
    assert cairn.json("sweep")["items"] == []
    assert staging(cairn) == []
    cairn.run("export", "--all")
    cairn.run("restore", "run/step-1")
    assert_restored(cairn, folder)
