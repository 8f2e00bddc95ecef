"""The checkpoints of a crash run, and what a checkpoint on disk is compared by.

Every content that will ever lie at a checkpoint's place is made beforehand, in
a pool, and digested there: what is right is known before cairn acts. The user
of the scenario then copies from the pool.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import random
import shutil
import stat
import struct
import subprocess

from tiers import BLOCK_BYTES, Node, crc64

MIB = 1 << 20
_FIRST_MTIME_NS = 1_760_000_000_123_456_789


@dataclasses.dataclass(frozen=True)
class Entry:
    """All that has to be the same again of one name."""

    kind: str  # "file", "directory", "symlink", "other".
    mode: int
    mtime_ns: int
    size: int
    content: str  # SHA-256 of a file; target of a symlink.
    first: str = ""  # Another name of the same file, if it sorts before.


Tree = dict[str, Entry]  # By path below the base; "" is the base itself.


class Digests:
    """SHA-256 of files, read once for each state of an inode."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], str] = {}

    def of(self, path: pathlib.Path, status: os.stat_result) -> str:
        key = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        if key not in self._known:
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            self._known[key] = digest
        return self._known[key]

    def of_file(self, path: pathlib.Path) -> str:
        return self.of(path, os.lstat(path))


def entry_of(path: pathlib.Path, digests: Digests) -> Entry:
    status = os.lstat(path)
    kind, content, size = "other", "", 0
    if stat.S_ISREG(status.st_mode):
        kind, size = "file", status.st_size
        content = digests.of(path, status)
    elif stat.S_ISDIR(status.st_mode):
        kind = "directory"
    elif stat.S_ISLNK(status.st_mode):
        kind, content = "symlink", os.readlink(path)
    mode = stat.S_IMODE(status.st_mode)
    return Entry(kind, mode, status.st_mtime_ns, size, content)


def tree_of(base: pathlib.Path, names: list[str], digests: Digests) -> Tree:
    """What is there of `names` below `base`; [""] is everything and itself."""
    paths = []
    for name in names:
        if os.path.lexists(base / name):
            paths.append(name)
    if names == [""]:
        for folder, folders, files in os.walk(base):
            below = os.path.relpath(folder, base)
            paths += [
                os.path.normpath(os.path.join(below, name))
                for name in folders + files
            ]
    tree: Tree = {}
    first_of: dict[int, str] = {}
    for path in sorted(paths, key=os.fsencode):
        entry = entry_of(base / path, digests)
        status = os.lstat(base / path)
        if entry.kind == "file" and status.st_nlink > 1:
            first = first_of.setdefault(status.st_ino, path)
            first = "" if first == path else first
            entry = dataclasses.replace(entry, first=first)
        tree[path] = entry
    return tree


@dataclasses.dataclass(frozen=True, eq=False)
class Content:
    """One content of one checkpoint."""

    path: str  # run/name
    label: str  # Which of its contents.
    names: tuple[str, ...]  # Of its files in the run; ("",): the directory.
    source: pathlib.Path  # Where its files lie in the pool.
    tree: Tree
    blocks: dict[str, tuple[tuple[int, str], ...]]  # CRC and SHA-256.

    def __repr__(self) -> str:
        return f"{self.path}#{self.label}"

    @property
    def base(self) -> str:
        """Of its files, below a tier's root."""
        if self.names == ("",):
            return self.path
        return self.path.rpartition("/")[0]

    def files(self) -> dict[str, Entry]:
        """Those that have bytes of their own."""
        return {
            path: entry
            for path, entry in self.tree.items()
            if entry.kind == "file" and not entry.first
        }

    def size(self) -> int:
        return sum(entry.size for entry in self.files().values())

    def sha_of_blocks(self, path: str) -> str:
        """The name of the file's content (docs/format.md, digest blocks)."""
        raw = b"".join(bytes.fromhex(sha) for _, sha in self.blocks[path])
        return hashlib.sha256(raw).hexdigest()

    def place(self, accelerator: pathlib.Path) -> pathlib.Path:
        return accelerator / self.base

    def write(self, accelerator: pathlib.Path) -> None:
        """As the training would."""
        base = self.place(accelerator)
        base.mkdir(parents=True, exist_ok=True)
        sources = [f"{self.source}/."]
        if self.names != ("",):
            sources = [str(self.source / name) for name in self.names]
        subprocess.run(
            ["cp", "-a", "--sparse=auto", *sources, str(base)], check=True
        )

    def remove(self, accelerator: pathlib.Path) -> None:
        """As the user would."""
        base = self.place(accelerator)
        if self.names == ("",):
            shutil.rmtree(base)
        else:
            for name in self.names:
                (base / name).unlink()


def differences(wanted: Tree, found: Tree) -> list[str]:
    lines = []
    for name in sorted(wanted.keys() | found.keys(), key=os.fsencode):
        one, other = wanted.get(name), found.get(name)
        if one is None or other is None:
            what = "too much" if one is None else "missing"
            lines.append(f"{name!r} is {what}")
        elif one != other:
            lines.append(f"{name!r} is {other}, should be {one}")
    return lines


def node_differs(node: Node, content: Content) -> str:
    """Why a manifest's node is not this content's; "" if it is."""
    entry = content.tree.get(node.path)
    if entry is None:
        return "too much"
    kind = "hardlink" if entry.first else entry.kind
    if node.type != kind:
        return f"a {node.type}, should be a {kind}"
    if kind == "hardlink":
        return "" if node.target == entry.first else "another hard link"
    if (node.mode, node.mtime_ns) != (entry.mode, entry.mtime_ns):
        return "another mode or mtime"
    if kind == "symlink":
        return "" if node.target == entry.content else "another symlink"
    if kind != "file":
        return ""
    if node.size != entry.size:
        return f"{node.size} bytes, should be {entry.size}"
    right = content.blocks[node.path]
    if node.crcs and node.crcs != tuple(crc for crc, _ in right):
        return "other CRCs"
    if node.shas and node.shas != tuple(sha for _, sha in right):
        return "other SHA-256s"
    return ""


# --- The pool -----------------------------------------------------------------


class Pool:
    """Makes contents, each of them once."""

    def __init__(self, folder: pathlib.Path, seed: int) -> None:
        self.folder = folder
        self.digests = Digests()
        self._random = random.Random(seed)
        self._made = 0

    def random_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def folder_for_next(self) -> pathlib.Path:
        self._made += 1
        folder = self.folder / f"{self._made:02}"
        folder.mkdir(parents=True)
        return folder

    def seal(
        self,
        path: str,
        label: str,
        source: pathlib.Path,
        names: tuple[str, ...] = ("",),
    ) -> Content:
        """Times of its own for all of it, and everything digested."""
        base = _FIRST_MTIME_NS + self._made * 3_600_000_000_000
        inside = sorted(source.rglob("*"), key=lambda p: -len(p.parts))
        for step, found in enumerate([*inside, source]):
            when = base + step * 1_000_001
            os.utime(found, ns=(when, when), follow_symlinks=False)
        tree = tree_of(source, list(names), self.digests)
        blocks = {}
        for name, entry in tree.items():
            if entry.kind == "file":
                blocks[name] = _blocks_of(source / name)
        return Content(path, label, names, source, tree, blocks)


def _blocks_of(path: pathlib.Path) -> tuple[tuple[int, str], ...]:
    blocks = []
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            blocks.append((crc64(block), hashlib.sha256(block).hexdigest()))
    return tuple(blocks)


def safetensors(tensors: dict[str, bytes]) -> bytes:
    header, at = {}, 0
    for name, data in tensors.items():
        header[name] = {
            "dtype": "U8",
            "shape": [len(data)],
            "data_offsets": [at, at + len(data)],
        }
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(tensors.values())


def directory(
    pool: Pool, path: str, label: str, files: dict[str, int]
) -> Content:
    """A directory with files of the given sizes, and DONE."""
    folder = pool.folder_for_next()
    for name, size in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(pool.random_bytes(size))
    (folder / "DONE").touch()
    return pool.seal(path, label, folder)


def everything(pool: Pool, path: str, label: str) -> Content:
    """All kinds of nodes: holes, links, an odd name, an empty file."""
    folder = pool.folder_for_next()
    (folder / "sub").mkdir(mode=0o750)
    (folder / "w.bin").write_bytes(pool.random_bytes(20 * MIB + 123))
    (folder / "config.json").write_bytes(pool.random_bytes(5000))
    (folder / "sub/optimizer.bin").write_bytes(pool.random_bytes(300_000))
    (folder / "sub/optimizer.bin").chmod(0o640)
    (folder / "empty.bin").touch()
    # No object store could carry this name: it is stored by its content.
    (folder / os.fsdecode(b"l\xf6ss 100%.txt")).write_bytes(
        pool.random_bytes(70_000)
    )
    with open(folder / "sparse.bin", "wb") as file:
        file.write(pool.random_bytes(65_536))
        file.seek(17 * MIB + 4096)
        file.write(pool.random_bytes(100_000))
        file.truncate(24 * MIB + 1)
    (folder / "newest").symlink_to("w.bin")
    os.link(folder / "config.json", folder / "sub/config-again.json")
    (folder / "DONE").touch()
    return pool.seal(path, label, folder)


def single_file(pool: Pool, path: str, label: str, size: int) -> Content:
    folder = pool.folder_for_next()
    name = path.rpartition("/")[2]
    data = safetensors({"w": pool.random_bytes(size)})
    (folder / name).write_bytes(data)
    return pool.seal(path, label, folder, (name,))


def several_files(
    pool: Pool, path: str, label: str, sizes: list[int]
) -> Content:
    """Files of one prefix in a run's directory, as TensorFlow has them; their
    index comes last."""
    folder = pool.folder_for_next()
    prefix = path.rpartition("/")[2]
    names = [
        f"{prefix}.data-{i:05}-of-{len(sizes):05}" for i in range(len(sizes))
    ]
    for name, size in zip(names, sizes, strict=True):
        (folder / name).write_bytes(pool.random_bytes(size))
    index = f"{prefix}.index"
    (folder / index).write_bytes(pool.random_bytes(999) + b"\1")
    return pool.seal(path, label, folder, (*names, index))


def flipped(pool: Pool, content: Content, name: str, at: int) -> Content:
    """The same with one bit turned over, and no time stamp to show it."""
    folder = pool.folder_for_next()
    subprocess.run(["cp", "-a", f"{content.source}/.", folder], check=True)
    path = folder / name
    status = path.stat()
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    tree = tree_of(folder, list(content.names), pool.digests)
    blocks = {**content.blocks, name: _blocks_of(path)}
    return Content(content.path, "damaged", content.names, folder, tree, blocks)
