"""Deleting and renaming on either tier, in the right order (T09).

B52, B54; B53, a tier that is missing, is in test_cases_tiers.py.
"""

from __future__ import annotations

import os
import shutil
import threading

import pytest
from cases import archive, listing, make, objects, result_of
from workspace import Workspace, differences, tree_of


@pytest.fixture
def three(cairn: Workspace) -> Workspace:
    """Archived: step-1 is also local, step-2 was released, step-3 was deleted
    by its owner; step-4 is the newest."""
    for step in range(1, 5):
        make(cairn, f"run/step-{step}")
    archive(cairn)
    cairn.run("release", "run/step-2")
    shutil.rmtree(cairn.accelerator / "run" / "step-3")
    cairn.run("scan")
    return cairn


def keys_of(w: Workspace, step: int) -> set[str]:
    return {key for key in objects(w) if key.startswith(f"run/step-{step}/")}


def test_archived_copy_of_what_is_also_local(three: Workspace) -> None:
    """B52, A: allowed; the local one stays."""
    before = tree_of(three.accelerator / "run" / "step-1")
    three.run("remove", "--tier", "core", "run/step-1")
    assert differences(before, tree_of(three.accelerator / "run/step-1")) == []
    assert keys_of(three, 1) == set()
    assert listing(three)["run/step-1"]["state"] == "local"
    three.run("verify", "run/step-1")


@pytest.mark.parametrize("step", [2, 3], ids=["released", "deleted"])
def test_archived_copy_that_is_the_only_one(
    three: Workspace, step: int
) -> None:
    """B52, B and C: refused unless forced, and found by what is recorded."""
    path = f"run/step-{step}"
    before = objects(three)
    refused = three.call("remove", "--tier", "core", path)
    assert refused.code == 1
    assert "only copy" in refused.err
    assert objects(three) == before
    dry = three.json("remove", "--tier", "core", path, "--force", "--dry-run")
    assert objects(three) == before
    done = three.json("remove", "--tier", "core", path, "--force")
    for field in ("generation", "bytes", "files"):
        assert result_of(dry, path)[field] == result_of(done, path)[field]
    assert keys_of(three, step) == set()
    assert path not in listing(three)
    assert set(objects(three)) == {
        key for key in before if not key.startswith(f"{path}/")
    }


def test_dry_sweep_names_what_the_sweep_takes(three: Workspace) -> None:
    """B52: orphans, as a list and then for real."""
    orphan = three.core / ".cairn" / "generations" / ("0" * 32) / "w.raw"
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"nobody's")
    (three.core / "run" / "note.txt").write_bytes(b"somebody else's")
    dry = three.json("sweep", "--dry-run")["items"]
    assert orphan.exists()
    lines = three.run("sweep", "--dry-run").out.splitlines()
    (line,) = [line for line in lines if "note.txt" in line]
    assert "would remove" not in line
    real = three.json("sweep")["items"]
    assert [i["name"] for i in dry] == [i["name"] for i in real]
    assert [i["name"] for i in real if i["removed"]] == [
        str(orphan.relative_to(three.core))
    ]
    assert (three.core / "run" / "note.txt").exists()
    three.run("verify", "--all", "--tier", "core")


def test_staging_that_is_renamed_into_place(cairn: Workspace) -> None:
    """B54: a saver that reuses one staging name, under an archiver that never
    rests: only final names are archived, each with its own content."""
    saved = threading.Event()
    failures: list[str] = []

    def archive_all_the_time() -> None:
        while not saved.is_set():
            for verb in (("scan",), ("export", "--all")):
                answer = cairn.call(*verb)
                if answer.code != 0:
                    failures.append(f"{verb}: {answer}")

    archiver = threading.Thread(target=archive_all_the_time)
    archiver.start()
    try:
        for step in range(1, 21):
            folder = make(
                cairn,
                "run/.staging",
                {"a.raw": b"%d" % step * 1000, "b.raw": b"%d" % (step * 7)},
            )
            os.rename(folder, cairn.accelerator / "run" / f"step-{step}")
    finally:
        saved.set()
        archiver.join()
    assert failures == []
    archive(cairn)
    assert set(listing(cairn)) == {f"run/step-{n}" for n in range(1, 21)}
    assert not [key for key in objects(cairn) if ".staging" in key]
    for step in range(1, 21):
        stored = cairn.core / "run" / f"step-{step}" / "a.raw"
        assert stored.read_bytes() == b"%d" % step * 1000
    cairn.run("verify", "--all")
