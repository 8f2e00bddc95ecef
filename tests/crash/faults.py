"""Plants faults that cairn must never leave, to see that the judge finds them.

A check that cannot fail protects nothing: each fault is made in the workspace
of the run without kills, judged, and taken back.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator

import zstandard
from invariants import Judge, State, Step
from scenario import Contents, World

Fault = tuple[str, pathlib.Path, Callable[[pathlib.Path], None]]


@contextlib.contextmanager
def _taken_back(path: pathlib.Path, spare: pathlib.Path) -> Iterator[None]:
    """`path` and the directory it is in are afterwards as they were."""
    parent = path.parent
    there = parent.is_dir()
    when = parent.stat().st_mtime_ns if there else 0
    copied = os.path.lexists(path)
    if copied:
        subprocess.run(["cp", "-a", path, spare], check=True)
    try:
        yield
    finally:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if copied:
            parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", spare, path], check=True)
            subprocess.run(["rm", "-rf", spare], check=True)
        if there:
            os.utime(parent, ns=(when, when))


def _flip(path: pathlib.Path) -> None:
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def _cut(path: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _remove(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _touch(path: pathlib.Path) -> None:
    os.utime(path)


def _make(path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"something")


def _lie(path: pathlib.Path) -> None:
    """A whole frame, and another line in it than the tail vouches for."""
    text = (
        zstandard.ZstdDecompressor()
        .decompressobj()
        .decompress(path.read_bytes())
    )
    changed = text.replace(b'"mode":"0', b'"mode":"1', 1)
    path.write_bytes(zstandard.ZstdCompressor().compress(changed))


def _only(folder: pathlib.Path, pattern: str = "*") -> pathlib.Path:
    return sorted(folder.glob(pattern))[-1]


def _faults(world: World, k: Contents) -> list[Fault]:
    acc, core = world.accelerator, world.core
    manifest = _only(core / ".cairn/manifests" / k.a300.path)
    released = core / ".cairn/marks" / k.s10.path
    return [
        ("a flipped bit in an object", core / k.a300.path / "w.bin", _flip),
        ("an object cut short", core / k.a100.path / "config.json", _cut),
        ("a missing object", core / k.s10.base / k.s10.names[0], _remove),
        ("a missing empty object", core / k.d.path / "empty", _remove),
        ("a core manifest cut short", manifest, _cut),
        ("a core manifest that lies", manifest, _lie),
        ("a missing core manifest", manifest, _remove),
        ("a damaged mark", _only(released), _flip),
        ("missing release marks", released, _remove),
        ("a lost checkpoint, never archived", acc / k.b20.path, _remove),
        ("a lost checkpoint, not released", acc / k.d.path, _remove),
        ("a file cut short", acc / k.a100.path / "w.bin", _cut),
        ("a flipped bit in a file", acc / k.s20.base / k.s20.names[1], _flip),
        ("a file touched", acc / k.c.path / "x.raw", _touch),
        ("a missing link", acc / k.a100.path / "newest", _remove),
        ("a file too many", acc / k.a100.path / "more", _make),
        ("a file from nowhere", acc / "modelA/x", _make),
        ("a file left in staging", acc / ".cairn/staging/x", _make),
        ("an upload left", core / ".cairn-store/uploads/0/info", _make),
        ("an object left", core / ".cairn/generations/0/DONE", _make),
        ("a missing tier id", acc / ".cairn/tier.json", _remove),
    ]


def plant_all(
    world: World, judge: Judge, state: State, contents: Contents
) -> tuple[list[str], list[str]]:
    """Names of those that were seen, and of all."""
    step = Step(state, state, True)
    seen, planted = [], []
    for name, path, plant in _faults(world, contents):
        with _taken_back(path, world.folder / "spare"):
            plant(path)
            planted.append(name)
            if judge.problems(step, swept=True):
                seen.append(name)
    left = judge.problems(step, swept=True)
    if left:
        raise AssertionError(f"faults that were not taken back: {left}")
    return seen, planted
