"""Files that change: while they are copied, afterwards, or only seemingly.

T03: B16, B18, B20; T08: B45, B47. B49, a clock that a server does not accept,
waits for an object server. That the time stamps of a whole file system jump
(B18) is played by a thread that keeps setting them.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pathlib
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from cases import (
    BLOCK,
    MARKER,
    Files,
    add_rule,
    archive,
    assert_same,
    bytes_moved,
    change_of,
    environment,
    latest,
    listing,
    make,
    noise,
    objects,
    result_of,
    start,
    write_files,
)
from workspace import Workspace, tree_of

DAY_NS = 86_400_000_000_000
QUIET_S = 0.05
QUIET_RULE = """
[[framework]]
name = "quiet"
directory = 'log-(?P<step>\\d+)'
quiet = "50 ms"
"""


@contextlib.contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Repeats `act` in a thread until the end of the block."""
    stop = threading.Event()
    errors: list[Exception] = []

    def repeat() -> None:
        try:
            while not stop.is_set():
                act()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert errors == []


def append(path: pathlib.Path, content: bytes) -> None:
    with open(path, "ab") as file:
        file.write(content)


def wait_for(
    found: Callable[[], bool], process: subprocess.Popen[bytes]
) -> None:
    """Until it is so, or the process has ended."""
    while not found() and process.poll() is None:
        time.sleep(0.001)


def rewrite(folder: pathlib.Path, files: Files) -> None:
    """As its owner does it: new files, the marker last."""
    write_files(folder, files)
    (folder / MARKER).unlink()
    (folder / MARKER).touch()


# --- While it is copied -------------------------------------------------------


def test_file_that_grows_while_it_is_copied(cairn: Workspace) -> None:
    """B16: the others are archived; it is named, and follows once it rests."""
    add_rule(cairn, QUIET_RULE)
    for step in range(5):
        make(cairn, f"run/step-{step}")
    folder = make(
        cairn, "logs/log-7", {"log.txt": noise(3 * BLOCK)}, marker=False
    )
    log = folder / "log.txt"
    time.sleep(2 * QUIET_S)
    assert len(cairn.json("scan")["committed"]) == 6

    uploads = cairn.core / ".cairn-store" / "uploads"
    with environment(cairn, CAIRN_EXPORT_MAX_RATE="40MB/s"):
        process = start(cairn, "export", "--all", "--json")
    wait_for(lambda: uploads.exists() and any(uploads.iterdir()), process)
    append(log, b"more\n")
    time.sleep(0.02)
    append(log, b"and more\n")
    out, err = process.communicate()
    assert process.returncode == 5, (out, err)
    after = listing(cairn)
    assert b"changed while it was being copied" in out
    assert not after["logs/log-7"]["archived"]
    for step in range(5):
        assert after[f"run/step-{step}"]["archived"]
    # What is not archived is not let go.
    answer = cairn.call("release", "logs/log-7")
    assert answer.code == 1
    assert log.exists()

    time.sleep(2 * QUIET_S)
    cairn.run("scan")
    cairn.run("export", "--all")
    content = log.read_bytes()
    assert content.endswith(b"more\nand more\n")
    shutil.rmtree(folder)
    cairn.run("restore", "logs/log-7")
    assert log.read_bytes() == content


def test_time_stamps_that_jump(cairn: Workspace) -> None:
    """B18: with content that stays, the content decides, in bounded time."""
    files = {f"{n}.raw": noise(20_000, n) for n in range(100)}
    folder = make(cairn, "run/step-1", files)
    cairn.run("scan")
    now = time.time_ns()
    jumps = [0, 1_000_000_000, -2_000_000_000, 1_999_000_000]

    def jump() -> None:
        jumps.append(jumps.pop(0))
        for number in range(100):
            stamp = now + jumps[0]
            os.utime(folder / f"{number}.raw", ns=(stamp, stamp))

    with meanwhile(jump):
        for _ in range(5):
            answer = cairn.call("export", "run/step-1")
            if answer.code == 0:
                break
            # Bounded; and what it could not make sure of it says.
            assert "changed while" in answer.err
        # Seen many times over, it never counts as damaged.
        for _ in range(3):
            cairn.run("scan")
    cairn.run("export", "--all")
    after = listing(cairn)["run/step-1"]
    assert after["archived"] and not after["damaged"]
    cairn.run("verify", "run/step-1", "--tier", "core")


def test_files_that_vanish(cairn: Workspace) -> None:
    """B20: they stop neither the archiving nor the releasing of others."""
    make(cairn, "run/step-1")
    make(cairn, "run/step-2")
    gone = make(cairn, "run/step-3")
    scratch = cairn.accelerator / "scratch"
    numbers = iter(range(1_000_000))

    def come_and_go() -> None:
        for _ in range(20):
            path = scratch / f"tmp{next(numbers)}" / "x.pt"
            write_files(path.parent, {path.name: b"scratch"})
            shutil.rmtree(path.parent)

    with meanwhile(come_and_go):
        for _ in range(5):
            cairn.run("scan")
        shutil.rmtree(gone)
        report = cairn.json("export", "--all", code=5)
    assert result_of(report, "run/step-1")["result"] == "done"
    assert result_of(report, "run/step-2")["result"] == "done"
    vanished = result_of(report, "run/step-3")
    assert vanished["result"] == "failed"
    assert "no longer" in vanished["message"]
    # The next scan knows that its owner deleted it, and all is well again.
    cairn.run("scan")
    assert "run/step-3" not in listing(cairn)
    cairn.run("export", "--all")
    report = cairn.json("release", "--all")
    assert result_of(report, "run/step-1")["result"] == "done"
    assert not (cairn.accelerator / "run" / "step-1").exists()
    assert latest(cairn, "run") == "step-2"


# --- Only seemingly -----------------------------------------------------------


def add_hard_link(w: Workspace, path: pathlib.Path) -> None:
    os.link(path, w.directory / "another-name")


def touch(w: Workspace, path: pathlib.Path) -> None:
    os.utime(path)


def set_clock_back(w: Workspace, path: pathlib.Path) -> None:
    stamp = time.time_ns() - 400 * DAY_NS
    os.utime(path, ns=(stamp, stamp))


def copy_over(w: Workspace, path: pathlib.Path) -> None:
    """As a restore by another tool: a new inode with the same content."""
    copy = path.with_name("copy")
    shutil.copy2(path, copy)
    os.replace(copy, path)


def change_mode(w: Workspace, path: pathlib.Path) -> None:
    path.chmod(0o600)


@pytest.mark.parametrize(
    "act", [add_hard_link, touch, set_clock_back, copy_over, change_mode]
)
@pytest.mark.parametrize("name", ["weights.raw", MARKER])
def test_touched_and_equal(
    cairn: Workspace, act: Callable[[Workspace, pathlib.Path], None], name: str
) -> None:
    """A changed time stamp or inode means unknown; reading shows: equal."""
    folder = make(cairn, "run/step-1")
    archive(cairn)
    generation = listing(cairn)["run/step-1"]["generation"]
    act(cairn, folder / name)
    change = change_of(cairn.json("scan"), "run/step-1")
    assert change["result"] == "done"
    assert "the content is the one committed" in change["message"]
    after = listing(cairn)["run/step-1"]
    assert after["generation"] == generation
    assert not after["dirty"] and not after["damaged"]
    # Refreshed: from now on it is known again.
    assert cairn.json("scan")["changes"] == []
    assert bytes_moved(cairn.json("export", "--all")) == 0


def test_touched_before_it_was_ever_read(cairn: Workspace) -> None:
    """No digest says what was committed; what is there, and whole, counts."""
    folder = make(cairn, "run/step-1")
    make(cairn, "run/by-hand", marker=False)
    cairn.run("scan")
    cairn.run("adopt", "run/by-hand", "--label", "who=me", "--step", "7")
    os.utime(folder / "weights.raw")
    os.utime(cairn.accelerator / "run" / "by-hand" / "weights.raw")
    cairn.run("scan")
    for info in listing(cairn).values():
        assert not info["damaged"] and not info["dirty"]
    assert listing(cairn)["run/by-hand"]["labels"] == {"who": "me"}
    cairn.run("export", "--all")
    cairn.run("verify", "--all")
    assert cairn.json("scan")["changes"] == []


def test_written_over_before_it_was_ever_read(cairn: Workspace) -> None:
    """One name for all saves, each of the same size: the last is the newest."""
    folder = make(cairn, "run/step-1", {"w.raw": b"save 1"})
    cairn.run("scan")
    first = listing(cairn)["run/step-1"]
    rewrite(folder, {"w.raw": b"save 2"})
    cairn.run("scan")
    second = listing(cairn)["run/step-1"]
    assert second["sequence"] > first["sequence"]
    cairn.run("export", "--all")
    rewrite(folder, {"w.raw": b"save 3"})
    archive(cairn)
    third = listing(cairn)["run/step-1"]
    assert third["sequence"] > second["sequence"]
    for generation, content in (
        (second["generation"], b"save 2"),
        (third["generation"], b"save 3"),
    ):
        cairn.run(
            *("restore", "run/step-1", "--force"),
            *("--generation", generation),
        )
        assert (folder / "w.raw").read_bytes() == content


def test_restored_is_known(cairn: Workspace) -> None:
    """A restored file has another inode and ctime, and is not unknown."""
    folder = make(cairn, "run/step-1")
    archive(cairn)
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    assert cairn.json("scan")["changes"] == []
    assert bytes_moved(cairn.json("export", "--all")) == 0


# --- Really -------------------------------------------------------------------


def test_store_through_a_mapping_after_close(cairn: Workspace) -> None:
    """The file is closed long ago, and a mapping of it still changes it."""
    folder = make(cairn, "run/step-1", {"w.raw": noise(3 * BLOCK)})
    make(cairn, "run/step-2")
    with open(folder / "w.raw", "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    mapping[0] = mapping[0]  # The page is dirty from now on.
    archive(cairn)
    # As long as somebody can change it unseen, it is not released.
    answer = cairn.call("release", "run/step-1")
    assert answer.code == 1
    assert "open in another process" in answer.err + answer.out
    mapping[BLOCK + 5] ^= 1
    report = cairn.json("verify", "run/step-1", "--tier", "accelerator", code=3)
    damage = result_of(report, "run/step-1")["damages"][0]
    assert damage["file"] == "run/step-1/w.raw"
    assert damage["offset"] == BLOCK
    mapping.close()
    change = change_of(cairn.json("scan", code=3), "run/step-1")
    assert change["result"] == "damaged"
    # Nobody rewrote the marker: the archived content is the good one.
    cairn.run("release", "run/step-1", code=1)
    cairn.run("verify", "run/step-1", "--tier", "core")
    cairn.run("restore", "run/step-1")
    assert (folder / "w.raw").read_bytes() == noise(3 * BLOCK)
    cairn.run("verify", "run/step-1")


def test_store_through_a_mapping_makes_a_new_generation(
    cairn: Workspace,
) -> None:
    """The same where no marker says who is right: changed, both are kept."""
    add_rule(cairn, QUIET_RULE)
    folder = make(cairn, "run/log-1", {"w.raw": b"first" * 1000}, marker=False)
    time.sleep(2 * QUIET_S)
    archive(cairn)
    first = listing(cairn)["run/log-1"]
    with open(folder / "w.raw", "r+b") as file:
        mapping = mmap.mmap(file.fileno(), 0)
    mapping[0:5] = b"FIRST"
    mapping.close()
    time.sleep(2 * QUIET_S)
    archive(cairn)
    second = listing(cairn)["run/log-1"]
    assert second["generation"] != first["generation"]
    assert second["sequence"] > first["sequence"]
    assert second["archived"]
    cairn.run(
        *("restore", "run/log-1", "--force"),
        *("--generation", first["generation"]),
    )
    assert (folder / "w.raw").read_bytes() == b"first" * 1000


def test_hard_link_inside(cairn: Workspace) -> None:
    """A hard link added below the checkpoint: its content is equal, it has
    one name more."""
    folder = make(cairn, "run/step-1", {"w.raw": noise(10_000)})
    archive(cairn)
    os.link(folder / "w.raw", folder / "again.raw")
    before = tree_of(folder)
    archive(cairn)
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    assert_same(before, folder)
    cairn.run("verify", "run/step-1")


def test_same_size_and_times(cairn: Workspace) -> None:
    """Content changed, size and mtime put back: ctime gives it away."""
    folder = make(cairn, "run/step-1", {"w.raw": b"good content"})
    archive(cairn)
    status = os.stat(folder / "w.raw")
    (folder / "w.raw").write_bytes(b"evil content")
    os.utime(folder / "w.raw", ns=(status.st_atime_ns, status.st_mtime_ns))
    change = change_of(cairn.json("scan", code=3), "run/step-1")
    assert change["result"] == "damaged"
    assert "w.raw has other content" in change["message"]


def test_young_fingerprint_is_not_trusted(cairn: Workspace) -> None:
    """A change in the moment in which the content was read may have left the
    time stamps as they were; so it is read again before it is let go."""
    folder = make(cairn, "run/step-1", {"w.raw": b"good content"})
    make(cairn, "run/step-2")
    archive(cairn)
    (folder / "w.raw").write_bytes(b"evil content")
    status = os.stat(folder / "w.raw")
    catalog = cairn.directory / "cairn-state" / "catalog.db"
    with contextlib.closing(sqlite3.connect(catalog)) as database, database:
        changed = database.execute(
            "UPDATE fingerprints SET mtime_ns = ?, ctime_ns = ?, inode = ?,"
            " known_ns = ? WHERE path = 'w.raw'",
            (
                *(status.st_mtime_ns, status.st_ctime_ns, status.st_ino),
                status.st_ctime_ns + 1_900_000_000,
            ),
        )
        assert changed.rowcount == 1
    answer = cairn.run("release", "run/step-1", code=1)
    assert "w.raw has changed since it was archived" in answer.err
    assert (folder / "w.raw").read_bytes() == b"evil content"


def test_newer_content_with_an_older_time(cairn: Workspace) -> None:
    """B45: v2 carries a time from before the upload of v1."""
    folder = make(cairn, "run/step-1", {"w.raw": b"version 1"})
    age(folder, days=730)
    archive(cairn)
    first = listing(cairn)["run/step-1"]["generation"]
    shutil.rmtree(folder)
    make(cairn, "run/step-1", {"w.raw": b"version 2"})
    age(folder, days=365)
    archive(cairn)
    second = listing(cairn)["run/step-1"]
    assert second["archived"] and second["generation"] != first
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    assert (folder / "w.raw").read_bytes() == b"version 2"
    # The earlier one is still to be had.
    cairn.run("restore", "run/step-1", "--generation", first, "--force")
    assert (folder / "w.raw").read_bytes() == b"version 1"


def age(folder: pathlib.Path, days: int) -> None:
    stamp = time.time_ns() - days * DAY_NS
    for top, folders, files in os.walk(folder, topdown=False):
        for name in [*files, *folders]:
            os.utime(os.path.join(top, name), ns=(stamp, stamp))
    os.utime(folder, ns=(stamp, stamp))


def round_times(top: pathlib.Path) -> None:
    """What a store, or a file system, with whole seconds makes of times."""
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            seconds = os.stat(path).st_mtime_ns // 1_000_000_000
            os.utime(path, (seconds, seconds))


def test_coarse_time_stamps(cairn: Workspace) -> None:
    """B47: one side keeps whole seconds only; nothing is copied again."""
    files = {f"{n:03}.raw": noise(1000, n) for n in range(100)}
    folder = make(cairn, "run/step-1", files)
    for number, name in enumerate(files):
        os.utime(folder / name, ns=(1, 981173046_123456789 + number))
    archive(cairn)
    round_times(cairn.core)
    cairn.run("scan")
    assert bytes_moved(cairn.json("export", "--all")) == 0
    shutil.rmtree(folder)
    cairn.run("restore", "run/step-1")
    round_times(cairn.accelerator)
    cairn.run("scan")
    assert bytes_moved(cairn.json("export", "--all")) == 0
    report = cairn.json("export", "run/step-1", code=4)
    assert bytes_moved(report) == 0
    assert len(objects(cairn)) == 101


CLOCK_SHIM = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec* out) {
  const int result = syscall(SYS_clock_gettime, id, out);
  if (id == CLOCK_REALTIME) out->tv_sec += atol(getenv("SHIFT_S"));
  return result;
}
"""


def test_clock_set_back(cairn: Workspace) -> None:
    """What is committed or decided later counts, whatever the clock says."""
    shim = cairn.directory / "shim.so"
    source = cairn.directory / "shim.c"
    source.write_text(CLOCK_SHIM)
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler, to make a clock that is wrong")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(shim), str(source)], check=True
    )
    make(cairn, "run/step-1")
    with environment(cairn, LD_PRELOAD=str(shim), SHIFT_S="864000"):
        cairn.run("scan")
        cairn.run("pin", "run/step-1")
    first = listing(cairn)["run/step-1"]
    assert first["sequence"] > (time.time_ns() + 9 * DAY_NS) // 1000
    make(cairn, "run/step-2")
    cairn.run("scan")
    second = listing(cairn)["run/step-2"]
    assert second["sequence"] > first["sequence"]
    assert latest(cairn, "run") == "step-2"
    with environment(cairn, LD_PRELOAD=str(shim), SHIFT_S="-864000"):
        cairn.run("unpin", "run/step-1")
        make(cairn, "run/step-3")
        archive(cairn)
    after = listing(cairn)
    assert not after["run/step-1"]["pinned"]
    assert after["run/step-3"]["sequence"] > second["sequence"]
    assert latest(cairn, "run") == "step-3"
    shutil.rmtree(cairn.directory / "cairn-state")
    cairn.run("rebuild")
    assert listing(cairn) == after
