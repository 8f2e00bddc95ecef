"""What a round trip has to bring back: sizes, holes, links, attributes.

T02: B09, B10, B15; T04: B21, B23. The rest of T02 waits for an object server:
the 416 of B09, the request count of B10, the copy inside a bucket of B13.
"""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from cases import (
    BLOCK,
    FULL,
    NOBODY,
    archive,
    as_nobody,
    assert_same,
    bytes_moved,
    make,
    needs_root,
    noise,
    objects,
    public_directory,
    result_of,
    round_trip,
    write_files,
)
from workspace import Workspace, tree_of

MTIME_NS = 981173046_123456789  # 2001-02-03 04:04:06 UTC.


def data_map(path: pathlib.Path) -> list[tuple[int, int]]:
    """Where a file has data, as the file system tells it."""
    extents = []
    with open(path, "rb") as file:
        size, end = os.fstat(file.fileno()).st_size, 0
        while end < size:
            try:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:  # A hole up to the end.
                break
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            extents.append((begin, end))
    return extents


def test_empty_files(cairn: Workspace) -> None:
    """B09: an empty file is a file."""
    folder = cairn.accelerator / "run" / "step-1"
    files = {
        "alone/empty": b"",
        "a-empty.raw": b"",
        "z-empty.raw": b"",
        "one.raw": b"1",
        "two.raw": noise(BLOCK + 1),
    }
    write_files(folder, files)
    cairn.run("adopt", "run/step-1")
    make(cairn, "run/step-2")
    cairn.run("scan")
    before = tree_of(folder)
    report = cairn.json("export", "run/step-1")
    assert result_of(report, "run/step-1")["files"] == 5
    cairn.run("export", "--all")
    cairn.run("release", "run/step-1")
    assert not folder.exists()
    cairn.run("restore", "run/step-1")
    assert_same(before, folder)
    for tier in ("accelerator", "core"):
        report = cairn.json("verify", "run/step-1", "--tier", tier)
        outcome = result_of(report, "run/step-1")
        assert outcome["good"] and outcome["content_read"]
        assert outcome["files"] == 5


def test_sizes_around_a_block(cairn: Workspace) -> None:
    """B10: a block is also a part, and the limit of a single-shot upload."""
    sizes = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1]
    files = {f"{size}.raw": noise(size, size) for size in sizes}
    folder = make(cairn, "run/step-1", files)
    cairn.run("scan")
    report = cairn.json("export", "run/step-1")
    assert bytes_moved(report) == sum(sizes)
    for size in sizes:
        assert objects(cairn)[f"run/step-1/{size}.raw"] == size
    round_trip_of_archived(cairn, folder)


def round_trip_of_archived(w: Workspace, folder: pathlib.Path) -> None:
    before = tree_of(folder)
    shutil.rmtree(folder)
    w.run("restore", "run/step-1")
    assert_same(before, folder)
    w.run("verify", "run/step-1")


@pytest.mark.parametrize(
    "size",
    [2**31 + 1]
    if not FULL
    else [2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**32 + 1],
)
def test_offsets_beyond_31_and_32_bits(cairn: Workspace, size: int) -> None:
    """B15: marks around the limits come back at their places."""
    folder = make(cairn, "run/step-1", {"small": b"x"})
    path = folder / "large.raw"
    limits = [limit for limit in (2**31, 2**32) if limit + 3 <= size]
    places = [0, *limits, size - 3]
    places += [limit - 3 for limit in limits]
    with open(path, "wb") as file:
        file.truncate(size)
        for number, place in enumerate(places):
            file.seek(place)
            file.write(b"%03d" % number)
    holes = data_map(path)
    cairn.run("scan")
    cairn.run("export", "run/step-1")
    assert objects(cairn)["run/step-1/large.raw"] == size
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    assert path.stat().st_size == size
    assert data_map(path) == holes
    with open(path, "rb") as file:
        for number, place in enumerate(places):
            file.seek(place)
            assert file.read(3) == b"%03d" % number
    cairn.run("verify", "run/step-1", "--tier", "core")


def write_sparse(path: pathlib.Path, size: int, data: dict[int, bytes]) -> None:
    with open(path, "wb") as file:
        file.truncate(size)
        for offset, content in data.items():
            file.seek(offset)
            file.write(content)


def test_holes_stay_holes(cairn: Workspace) -> None:
    """Round trip: holes at the front, in the middle, at the end, all hole."""
    page = 4096
    folder = make(cairn, "run/step-1", {"dense.raw": noise(3 * page)})
    some = noise(page)
    sparse = {
        "middle": (40 << 20, {0: some, (33 << 20) + 5 * page: some}),
        "front": (BLOCK + 3 * page, {BLOCK + page: some}),
        "end": (20 << 20, {0: some}),
        "all": (50 << 20, {}),
        "small": (16 * page, {8 * page: some}),
        "odd": ((16 << 20) + 17, {BLOCK + 1: b"x", 16 << 20: b"end"}),
        "zeros": (64 * page, {16 * page: bytes(page)}),  # Data that is zeros.
    }
    for name, (size, data) in sparse.items():
        write_sparse(folder / name, size, data)
    maps = {name: data_map(folder / name) for name in sparse}
    if maps["all"]:
        pytest.skip("this file system has no holes")
    blocks = {name: os.stat(folder / name).st_blocks for name in sparse}
    cairn.run("scan")
    round_trip(cairn, "run/step-1", folder)
    for name in sparse:
        assert data_map(folder / name) == maps[name], name
        assert os.stat(folder / name).st_blocks <= blocks[name], name


def test_hard_links(cairn: Workspace) -> None:
    """Round trip: names of one file stay so, and are sent once."""
    folder = make(cairn, "run/step-1", {"a/first.raw": noise(100_000)})
    os.link(folder / "a" / "first.raw", folder / "second.raw")
    (folder / "b").mkdir()
    os.link(folder / "a" / "first.raw", folder / "b" / "third.raw")
    before = tree_of(folder)
    cairn.run("scan")
    assert bytes_moved(cairn.json("export", "run/step-1")) == 100_000
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    assert_same(before, folder)
    inodes = {
        os.stat(folder / name).st_ino
        for name in ("a/first.raw", "second.raw", "b/third.raw")
    }
    assert len(inodes) == 1
    assert os.stat(folder / "second.raw").st_nlink == 3
    assert cairn.json("scan")["changes"] == []


def test_empty_directories_and_read_only_ones(cairn: Workspace) -> None:
    """Round trip: what holds nothing, and what can't be written to."""
    folder = make(cairn, "run/step-1", {"closed/w.raw": b"x", "deep/a/b": b""})
    (folder / "empty" / "inside").mkdir(parents=True)
    (folder / "secret.raw").write_bytes(b"secret")
    (folder / "secret.raw").chmod(0)
    (folder / "closed" / "w.raw").chmod(0o400)
    (folder / "closed").chmod(0o555)
    for path in (folder / "closed", folder / "empty", folder):
        os.utime(path, ns=(MTIME_NS, MTIME_NS))
    if os.geteuid() != 0:
        (folder / "secret.raw").chmod(0o400)
    before = tree_of(folder)
    archive(cairn)
    make(cairn, "run/step-2")
    archive(cairn)
    cairn.run("release", "run/step-1")
    cairn.run("restore", "run/step-1")
    assert_same(before, folder)


def make_attributed(w: Workspace) -> pathlib.Path:
    folder = make(w, "run/step-1", {f"{n}.raw": b"%d" % n for n in range(3)})
    (folder / "shared").mkdir()
    (folder / "link").symlink_to("0.raw")
    if os.geteuid() == 0:
        for name in ("0.raw", "1.raw", "2.raw", "shared", "link"):
            os.chown(folder / name, 1500, 1600, follow_symlinks=False)
    for name, mode in (("0", 0o640), ("1", 0o755), ("2", 0o4755)):
        (folder / f"{name}.raw").chmod(mode)
    (folder / "shared").chmod(0o2770)
    for name in ("0.raw", "1.raw", "2.raw", "shared", "link"):
        os.utime(folder / name, ns=(MTIME_NS, MTIME_NS), follow_symlinks=False)
    return folder


def owners(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    return {
        name: (os.lstat(folder / name).st_uid, os.lstat(folder / name).st_gid)
        for name in sorted(os.listdir(folder))
    }


@needs_root
def test_attributes_as_root(cairn: Workspace) -> None:
    """B21: mode with its set-id bits, owner, mtime to the nanosecond."""
    folder = make_attributed(cairn)
    before = owners(folder)
    assert before["0.raw"] == before["link"] == (1500, 1600)
    cairn.run("scan")
    round_trip(cairn, "run/step-1", folder)
    assert owners(folder) == before
    assert os.stat(folder / "2.raw").st_mode & 0o7777 == 0o4755
    assert os.stat(folder / "shared").st_mode & 0o7777 == 0o2770
    assert os.stat(folder / "0.raw").st_mtime_ns == MTIME_NS


@needs_root
def test_attributes_as_a_user(cairn_program: str) -> None:
    """B21: who is not root gets modes and times, and one warning for owners."""
    with public_directory() as directory:
        cairn = Workspace(cairn_program, directory)
        cairn.init()
        folder = make_attributed(cairn)
        archive(cairn)
        before = tree_of(folder)
        shutil.rmtree(folder)
        as_nobody(cairn)
        warnings = cairn.json("restore", "run/step-1")["warnings"]
        assert len(warnings) == 1 and "owner" in warnings[0]
        after = tree_of(folder)
        assert after.keys() == before.keys()
        for name, node in before.items():
            assert after[name].mtime_ns == node.mtime_ns, name
            assert after[name].content == node.content, name
            # A set-id bit for another owner would be a gift to the wrong one.
            assert after[name].mode == node.mode & 0o1777, name
        assert set(owners(folder).values()) == {(NOBODY, NOBODY)}


def test_values_that_make_no_sense(cairn: Workspace) -> None:
    """B21: an option's value is checked, not ignored."""
    make(cairn, "run/step-1")
    archive(cairn)
    for arguments in (
        ("verify", "run/step-1", "--tier", "nonsense"),
        ("restore", "run/step-1", "--no-such-option"),
        ("export", "--all", "--max-rate", "nonsense"),
    ):
        answer = cairn.call(*arguments)
        assert answer.code == 2, (arguments, answer)
        assert answer.err


def test_symlinks(cairn: Workspace) -> None:
    """B23: they are links, not what they point to; the walk ends."""
    outside = cairn.directory / "outside.txt"
    outside.write_bytes(noise(50_000))
    folder = make(
        cairn, "run/step-1", {"w.raw": noise(1000), "sub/deep/x": b"x"}
    )
    targets = {
        "latest": "w.raw",
        "sub/deep/up": "../../sub",
        "a": "b",
        "b": "a",
        "dangling": "nowhere/at all",
        "outside": str(outside),
        "out": "../../../core",
        "odd": "caf\udce9 \n",
    }
    for name, target in targets.items():
        (folder / name).symlink_to(target)
    cairn.run("scan")
    before = tree_of(folder)
    assert bytes_moved(cairn.json("export", "run/step-1")) == 1001
    assert sum(objects(cairn).values()) == 1001
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    assert_same(before, folder)
    for name, target in targets.items():
        assert os.readlink(folder / name) == target
    cairn.run("verify", "run/step-1")
    # Pointing elsewhere is damage, also where the content is the same.
    (folder / "latest").unlink()
    (folder / "latest").symlink_to("sub/deep/x")
    cairn.run("verify", "run/step-1", "--tier", "accelerator", code=3)


def test_link_beside_the_checkpoints(cairn: Workspace) -> None:
    """B23: `latest -> step-1000` in the run is no second checkpoint."""
    make(cairn, "run/step-1000")
    (cairn.accelerator / "run" / "latest").symlink_to("step-1000")
    (cairn.accelerator / "loop").symlink_to(".")
    scan = cairn.json("scan")
    assert [c["path"] for c in scan["committed"]] == ["run/step-1000"]


def test_special_files_are_named_and_left_out(cairn: Workspace) -> None:
    """Round trip: a FIFO is never opened, which would wait for ever."""
    folder = make(cairn, "run/step-1")
    os.mkfifo(folder / "pipe")
    answer = cairn.run("scan")
    assert "pipe" in answer.err + answer.out
    cairn.run("export", "run/step-1")
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    assert sorted(os.listdir(folder)) == ["DONE", "weights.raw"]
