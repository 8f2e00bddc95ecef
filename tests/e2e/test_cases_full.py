"""Disks that are full, read-only or closed to the user (T10).

B57, B60. B56 does not apply: cairn is not in the way of writes, so it can
neither slow a writer down nor run into a quota that it does not have. What a
full disk does to its own work is shown here.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from cases import (
    MIB,
    archive,
    as_nobody,
    assert_same,
    environment,
    fill_up,
    free_bytes,
    give_away,
    kill_at,
    latest,
    listing,
    make,
    manifests,
    mounted,
    needs_root,
    noise,
    objects,
    public_directory,
    result_of,
    staging,
    write_files,
)
from workspace import Answer, Workspace, tree_of


def assert_says_full(answer: Answer, path: str) -> None:
    """What happened, to what, and what to do."""
    assert answer.code == 1, answer
    assert path in answer.err + answer.out, answer
    text = (answer.err + answer.out).lower()
    assert "no space left" in text or " free" in text, answer


@pytest.fixture(params=["tmpfs", "ext4"])
def small(
    request: pytest.FixtureRequest, cairn_program: str, tmp_path: pathlib.Path
) -> Iterator[Workspace]:
    """An accelerator tier of 64 MiB."""
    w = Workspace(cairn_program, tmp_path)
    with mounted(request.param, 64, w.accelerator):
        w.init()
        yield w


@needs_root
def test_save_that_does_not_fit(small: Workspace) -> None:
    """B57: names the path, what it needs and what is free; the older one stays
    the newest, and the space is given back."""
    w = small
    source = w.directory / "source"
    write_files(source, {"w.raw": noise(20 * MIB)})
    w.run("save", "run/step-1", "--from", str(source), "--step", "1")
    before = free_bytes(w.accelerator)
    write_files(source, {"more.raw": noise(60 * MIB, 1)})
    answer = w.call("save", "run/step-2", "--from", str(source), "--step", "2")
    assert_says_full(answer, "run/step-2")
    assert "80" in answer.err  # MiB that it needs.
    assert "cairn sweep" in answer.err or "cairn release" in answer.err
    assert not (w.accelerator / "run" / "step-2").exists()
    assert staging(w) == []
    assert abs(free_bytes(w.accelerator) - before) < MIB
    assert latest(w, "run") == "step-1"
    assert (w.accelerator / "run" / "step-1" / "w.raw").read_bytes() == noise(
        20 * MIB
    )
    w.run("verify", "--all")


@needs_root
def test_save_runs_out_of_names(
    cairn_program: str, tmp_path: pathlib.Path
) -> None:
    """B57: where bytes are free and no inode is, the write itself fails."""
    w = Workspace(cairn_program, tmp_path)
    with mounted("tmpfs", 64, w.accelerator):
        done = subprocess.run(
            ["mount", "-o", "remount,nr_inodes=60", str(w.accelerator)]
        )
        assert done.returncode == 0
        w.init()
        source = w.directory / "source"
        write_files(source, {f"{n}": b"x" for n in range(100)})
        answer = w.call("save", "run/step-1", "--from", str(source))
        assert_says_full(answer, "staging")
        assert not (w.accelerator / "run").exists()
        assert staging(w) == []
        for n in range(60, 100):
            (source / f"{n}").unlink()
        for n in range(30, 60):
            (source / f"{n}").unlink()
        w.run("save", "run/step-1", "--from", str(source))


@needs_root
def test_stale_staging_makes_room(small: Workspace) -> None:
    """B60: what dead saves left goes first; what is not theirs stays."""
    w = small
    source = w.directory / "source"
    write_files(source, {"w.raw": noise(16 * MIB)})
    users = w.accelerator / "staging" / "mine"
    write_files(users.parent, {users.name: b"precious"})
    for step in (10, 20, 30):
        kill_at(
            w,
            "restore.before_sync",
            "save",
            f"run/step-{step}",
            "--from",
            str(source),
        )
    assert len(staging(w)) >= 1
    # One whose saver is alive: it holds the lock.
    alive = w.accelerator / ".cairn" / "staging" / "save-alive"
    write_files(alive, {"lock": b"", "tree/w.raw": b"halfway"})
    write_files(source, {"more.raw": noise(26 * MIB, 1)})
    with open(alive / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        w.run("save", "run/step-40", "--from", str(source))
        assert staging(w) == ["save-alive"]
    assert (alive / "tree" / "w.raw").read_bytes() == b"halfway"
    assert users.read_bytes() == b"precious"
    assert latest(w, "run") == "step-40"
    w.run("verify", "--all")


@needs_root
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_export_to_a_full_core_tier(
    cairn_program: str, tmp_path: pathlib.Path, kind: str
) -> None:
    """Nothing is half-published; once there is room, it goes on."""
    w = Workspace(cairn_program, tmp_path)
    with mounted(kind, 48, w.core):
        w.init()
        folder = make(
            w,
            "run/step-1",
            {"large.raw": noise(20 * MIB), "small.raw": noise(MIB)},
        )
        w.run("scan")
        (w.core / "filler").write_bytes(bytes(32 * MIB))
        answer = w.call("export", "run/step-1")
        assert_says_full(answer, "run/step-1")
        assert not listing(w)["run/step-1"]["archived"]
        assert manifests(w.core, "run/step-1") == []
        assert "run/step-1/large.raw" not in objects(w)
        assert w.json("status")["failures"]
        answer = w.call("release", "run/step-1")
        assert answer.code == 1 and folder.exists()
        (w.core / "filler").unlink()
        w.run("export", "run/step-1")
        w.run("verify", "run/step-1")
        assert w.json("status")["failures"] == []


@needs_root
def test_restore_that_does_not_fit(small: Workspace) -> None:
    """It says so before it writes; with room, it works."""
    w = small
    folder = make(w, "run/step-1", {"w.raw": noise(24 * MIB)})
    archive(w)
    before = tree_of(folder)
    shutil.rmtree(folder)
    filler = w.accelerator / "filler"
    filler.write_bytes(bytes(45 * MIB))
    answer = w.call("restore", "run/step-1")
    assert_says_full(answer, "run/step-1")
    assert "cairn release" in answer.err
    assert not folder.exists()
    assert staging(w) == []
    answer = w.call("latest", "run", "--restore")
    assert answer.code == 1 and answer.out == ""
    filler.unlink()
    w.run("restore", "run/step-1")
    assert_same(before, folder)


@needs_root
def test_full_accelerator_tier_can_still_be_freed(small: Workspace) -> None:
    """A disk that is full to the last byte is what release is for."""
    w = small
    make(w, "run/step-1", {"w.raw": noise(20 * MIB)})
    make(w, "run/step-2", {"w.raw": noise(20 * MIB)})
    archive(w)
    filler = w.accelerator / "filler"
    fill_up(filler)
    answer = w.call("release", "run/step-1")
    if answer.code == 0:
        assert not (w.accelerator / "run" / "step-1").exists()
    else:
        # There was not even room for the record of it: nothing was let go.
        assert_says_full(answer, ".cairn")
        w.run("verify", "run/step-1")
    assert latest(w, "run") == "step-2"


@needs_root
def test_full_state_directory(
    cairn_program: str, tmp_path: pathlib.Path
) -> None:
    """The catalog's disk is full: an error with its path, and no loss."""
    w = Workspace(cairn_program, tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    with (
        mounted("tmpfs", 4, state),
        environment(w, CAIRN_STATE_DIR=str(state / "s")),
    ):
        w.init()
        make(w, "run/step-1")
        archive(w)
        before = listing(w)
        filler = state / "filler"
        fill_up(filler)
        for number in range(100):
            make(w, f"run/step-{number + 2}")
        answer = w.call("scan")
        assert answer.code == 1, answer
        assert str(state) in answer.err or "catalog" in answer.err
        filler.unlink()
        w.run("scan")
        after = listing(w)
        assert len(after) == 101
        assert after["run/step-1"] == before["run/step-1"]


# --- Read-only ----------------------------------------------------------------


def remount(path: pathlib.Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(path)], check=True)


@needs_root
def test_read_only_accelerator_tier(small: Workspace) -> None:
    """Reading verbs work; writing ones name the path and change nothing."""
    w = small
    folder = make(w, "run/step-1", {"w.raw": noise(MIB)})
    archive(w)
    before = listing(w)
    make(w, "run/step-2")
    remount(w.accelerator, "ro")
    try:
        w.run("verify", "--all")
        assert w.run("latest", "run").out == f"{folder}\n"
        for verb in (("scan",), ("pin", "run/step-1")):
            answer = w.call(*verb)
            assert answer.code == 1, (verb, answer)
            assert str(w.accelerator) in answer.err, (verb, answer)
            assert "read-only" in answer.err.lower(), (verb, answer)
        assert listing(w) == before
    finally:
        remount(w.accelerator, "rw")
    archive(w)
    assert listing(w)["run/step-2"]["archived"]
    assert not listing(w)["run/step-1"]["pinned"]


@needs_root
def test_read_only_core_tier(
    cairn_program: str, tmp_path: pathlib.Path
) -> None:
    """An archive that can only be read can be restored from."""
    w = Workspace(cairn_program, tmp_path)
    with mounted("tmpfs", 64, w.core):
        w.init()
        folder = make(w, "run/step-1", {"w.raw": noise(MIB)})
        archive(w)
        before = tree_of(folder)
        make(w, "run/step-2", {"w.raw": noise(MIB)})
        remount(w.core, "ro")
        w.run("scan")
        answer = w.call("export", "run/step-2")
        assert answer.code == 1
        assert str(w.core) in answer.err + answer.out
        assert "read-only" in (answer.err + answer.out).lower()
        assert not listing(w)["run/step-2"]["archived"]
        shutil.rmtree(folder)
        w.run("restore", "run/step-1")
        assert_same(before, folder)
        remount(w.core, "rw")
        w.run("export", "--all")
        w.run("verify", "--all")


# --- Permissions --------------------------------------------------------------


@pytest.fixture
def closed(cairn_program: str) -> Iterator[Workspace]:
    """A store of a user without rights; root made two checkpoints in it."""
    with public_directory() as directory:
        w = Workspace(cairn_program, directory)
        as_nobody(w)
        make(w, "run/step-1", {"w.raw": noise(1000)})
        make(w, "run/step-2", {"w.raw": noise(1000), "secret.raw": b"secret"})
        if os.geteuid() == 0:
            give_away(w.directory)
        w.init()
        yield w


def test_file_that_may_not_be_read(closed: Workspace) -> None:
    """It is named; the checkpoint is not archived, the other one is."""
    w = closed
    w.run("scan")
    secret = w.accelerator / "run" / "step-2" / "secret.raw"
    secret.chmod(0)
    report = w.json("export", "--all", code=5)
    outcome = result_of(report, "run/step-2")
    assert outcome["result"] == "failed"
    assert "secret.raw" in outcome["message"]
    assert "ermission denied" in outcome["message"]
    assert result_of(report, "run/step-1")["result"] == "done"
    assert manifests(w.core, "run/step-2") == []
    secret.chmod(0o600)
    w.run("export", "--all")
    w.run("verify", "--all")


@needs_root
def test_core_tier_that_may_not_be_written(closed: Workspace) -> None:
    """The path is named, and nothing is half-published."""
    w = closed
    w.run("scan")
    w.run("export", "run/step-1")
    os.chown(w.core, 0, 0)
    for folder, _, _ in os.walk(w.core):
        os.chown(folder, 0, 0)
        os.chmod(folder, 0o755)
    answer = w.call("export", "run/step-2")
    assert answer.code == 1
    assert str(w.core) in answer.err + answer.out
    assert "ermission denied" in answer.err + answer.out
    assert not listing(w)["run/step-2"]["archived"]
    w.run("verify", "run/step-1")


@needs_root
def test_accelerator_tier_that_may_not_be_written(closed: Workspace) -> None:
    """A restore names the path and leaves nothing; a scan likewise."""
    w = closed
    archive(w)
    make(w, "run/step-3", {"w.raw": b"3"})
    give_away(w.accelerator)
    shutil.rmtree(w.accelerator / "run" / "step-1")
    for folder, _, _ in os.walk(w.accelerator):
        os.chown(folder, 0, 0)
        os.chmod(folder, 0o755)
    for verb in (("restore", "run/step-1"), ("scan",)):
        answer = w.call(*verb)
        assert answer.code == 1, (verb, answer)
        assert str(w.accelerator) in answer.err, (verb, answer)
        assert "ermission denied" in answer.err, (verb, answer)
    assert not (w.accelerator / "run" / "step-1").exists()
    assert "run/step-3" not in listing(w)
    assert staging(w) == []


@needs_root
def test_state_that_may_not_be_written(closed: Workspace) -> None:
    """The state directory is named."""
    w = closed
    archive(w)
    state = w.directory / "cairn-state"
    for folder, _, files in os.walk(state):
        for name in [".", *files]:
            path = os.path.join(folder, name)
            os.chown(path, 0, 0)
            os.chmod(path, 0o755 if name == "." else 0o644)
    make(w, "run/step-3")
    answer = w.call("scan")
    assert answer.code == 1, answer
    assert str(state) in answer.err, answer
