"""What the tests of the cases from the field share.

Making checkpoints without any framework, asking cairn about them, damaging
them, killing cairn at a named point, running it as somebody else.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from workspace import Tree, Workspace, differences, tree_of

MIB = 1 << 20
BLOCK = 8 * MIB  # A digest block; also the size of a part.
MARKER = "DONE"  # What the generic rule takes for a commit record.
NOBODY = 65534
Files = Mapping[Any, bytes]  # Content by name, as text or bytes.
FULL = os.environ.get("CAIRN_FULL") == "1"  # The sizes of the cases as told.

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may mount, or give files away"
)


@functools.lru_cache(maxsize=64)
def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that do not compress and differ by seed."""
    return random.Random(seed).randbytes(size)


# --- Making -------------------------------------------------------------------


def write_files(folder: pathlib.Path, files: Files) -> None:
    """Writes `files`, by path below `folder`, as bytes or text."""
    top = os.fsencode(folder)
    os.makedirs(top, exist_ok=True)
    for name, content in files.items():
        path = os.path.join(top, os.fsencode(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


def make(
    w: Workspace,
    path: str,
    files: Files | None = None,
    marker: bool = True,
) -> pathlib.Path:
    """A checkpoint that the generic rule knows by its marker."""
    folder = w.accelerator / path
    seed = sum(path.encode())
    write_files(folder, files or {"weights.raw": noise(10_000, seed)})
    if marker:
        (folder / MARKER).write_bytes(b"")
    return folder


def add_rule(w: Workspace, text: str) -> None:
    with open(w.config, "a") as config:
        config.write("\n" + text)


def archive(w: Workspace) -> None:
    """Takes in what is there, and exports it."""
    w.run("scan")
    w.run("export", "--all")


# --- Asking -------------------------------------------------------------------


def listing(w: Workspace) -> dict[str, dict[str, Any]]:
    """The newest generations, by path."""
    return {c["path"]: c for c in w.json("ls")["checkpoints"]}


def result_of(report: Any, path: str) -> dict[str, Any]:
    """What became of one checkpoint in a verb over several."""
    found = [o for o in report["outcomes"] if o["path"] == path]
    assert len(found) == 1, report
    return dict(found[0])


def change_of(scan: Any, path: str) -> dict[str, Any]:
    found = [c for c in scan["changes"] if c["path"] == path]
    assert len(found) == 1, scan
    return dict(found[0])


def bytes_moved(report: Any) -> int:
    return sum(outcome["bytes"] for outcome in report["outcomes"])


def latest(w: Workspace, run: str) -> str:
    """Name of the newest good checkpoint."""
    return str(w.json("latest", run)["checkpoint"]["name"])


def objects(w: Workspace) -> dict[str, int]:
    """Sizes of the files on the core tier that are not cairn's own records."""
    found = {}
    for folder, _, files in os.walk(os.fsencode(w.core)):
        for name in files:
            full = os.path.join(folder, name)
            key = os.fsdecode(os.path.relpath(full, os.fsencode(w.core)))
            if not key.startswith((".cairn/", ".cairn-store/")):
                found[key] = os.lstat(full).st_size
    return found


def manifests(tier: pathlib.Path, path: str) -> list[pathlib.Path]:
    """Of a checkpoint on a tier, oldest first."""
    return sorted((tier / ".cairn" / "manifests" / path).glob("*.jsonl.zst"))


def staging(w: Workspace) -> list[str]:
    folder = w.accelerator / ".cairn" / "staging"
    return sorted(os.listdir(folder)) if folder.exists() else []


def round_trip(w: Workspace, path: str, folder: pathlib.Path) -> None:
    """Export, delete, restore, verify: nothing may be different."""
    before = tree_of(folder)
    w.run("export", path)
    shutil.rmtree(os.fsencode(folder))
    w.run("restore", path)
    assert_same(before, folder)
    w.run("verify", path)


def assert_same(wanted: Tree, folder: pathlib.Path) -> None:
    assert differences(wanted, tree_of(folder)) == []


# --- Damaging -----------------------------------------------------------------


def flip(path: pathlib.Path, offset: int) -> None:
    """One bit; size and times stay, as with a fault of the disk."""
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x10]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def cut(path: pathlib.Path, size: int) -> None:
    os.truncate(path, size)


def zero(path: pathlib.Path) -> None:
    """As long as it was, and nothing but zeros."""
    size = os.stat(path).st_size
    with open(path, "r+b") as file:
        file.write(bytes(size))


# --- Running ------------------------------------------------------------------


@contextlib.contextmanager
def environment(w: Workspace, **values: str) -> Iterator[None]:
    before = dict(w.environment)
    w.environment.update(values)
    try:
        yield
    finally:
        w.environment = before


def kill_at(w: Workspace, point: str, *arguments: str) -> None:
    """Runs cairn until `point` ("name" or "name:passage"), where it dies."""
    with environment(w, CAIRN_KILL_AT=point):
        answer = w.call(*arguments)
    assert answer.code == -signal.SIGKILL, (
        f"was not killed at {point}: built without kill points, or there is"
        f" none of that name on the way\n{answer}"
    )


def start(w: Workspace, *arguments: str) -> subprocess.Popen[bytes]:
    """Runs cairn beside the test."""
    return subprocess.Popen(
        [w.program, *arguments],
        cwd=w.directory,
        env=w.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@contextlib.contextmanager
def public_directory() -> Iterator[pathlib.Path]:
    """A directory that every user can reach, unlike pytest's own."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-test-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(os.fsencode(directory))


def as_nobody(w: Workspace) -> None:
    """From now on cairn runs as a user without rights, and owns what is there.

    Who is not root already is such a user.
    """
    if os.geteuid() != 0:
        return
    for name in ("setpriv", "sh"):
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed")
    copy = w.directory / "cairn-program"
    shutil.copy(w.program, copy)  # The original may be out of the user's reach.
    copy.chmod(0o755)
    wrapper = w.directory / "cairn-as-nobody"
    wrapper.write_text(
        "#!/bin/sh\n"
        f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
        f' {shlex.quote(str(copy))} "$@"\n'
    )
    wrapper.chmod(0o755)
    w.program = str(wrapper)
    give_away(w.directory)


def give_away(folder: pathlib.Path) -> None:
    for top, folders, files in os.walk(os.fsencode(folder)):
        for name in [b"", *folders, *files]:
            path = os.path.join(top, name) if name else top
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@contextlib.contextmanager
def mounted(kind: str, megabytes: int, where: pathlib.Path) -> Iterator[None]:
    """A small file system of its own; `kind` is tmpfs or ext4."""
    image = where.parent / f"{where.name}.image"
    commands = [["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "t"]]
    if kind == "ext4":
        with open(image, "wb") as file:
            file.truncate(megabytes << 20)
        commands = [
            ["mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image)],
            ["mount", "-o", "loop", str(image)],
        ]
    commands[-1].append(str(where))
    for command in commands:
        if not shutil.which(command[0]):
            pytest.skip(f"{command[0]} is not installed")
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"{shlex.join(command)}: {done.stderr.strip()}")
    try:
        where.chmod(0o755)
        yield
    finally:
        subprocess.run(["umount", str(where)], check=True)
        image.unlink(missing_ok=True)


def fill_up(path: pathlib.Path) -> None:
    """A file that takes all the space there is."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        for size in (MIB, 4096):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass


def free_bytes(path: pathlib.Path) -> int:
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize
