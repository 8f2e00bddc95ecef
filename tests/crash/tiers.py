"""Reads what lies on the two tiers, by docs/format.md and without cairn.

The crash run's judge must not share a mistake with what it judges, so nothing
here comes from cairn's code: not the decoder of manifests, not the CRC, not the
rule for names. Everything raises Damaged for what the format does not allow.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy
import zstandard

BLOCK_BYTES = 8 << 20
_POLYNOMIAL = 0x9A6C9329AC4BC9B5  # CRC-64/NVME, reflected.
_ONES = 0xFFFFFFFFFFFFFFFF
_LANES_MAX = 8192


class Damaged(Exception):
    """Not what docs/format.md says."""


# --- CRC-64/NVME --------------------------------------------------------------


def _make_table(size: int) -> numpy.ndarray:
    """What the bits of one byte, or of two, do to a state."""
    states = numpy.arange(size, dtype=numpy.uint64)
    for _ in range(size.bit_length() - 1):
        odd = states & numpy.uint64(1)
        states = (states >> numpy.uint64(1)) ^ odd * numpy.uint64(_POLYNOMIAL)
    return states


_OF_BYTE = _make_table(1 << 8)
_OF_PAIR = _make_table(1 << 16)
_BITS = numpy.array([1 << bit for bit in range(64)], dtype=numpy.uint64)


def _apply(operator: numpy.ndarray, states: numpy.ndarray) -> numpy.ndarray:
    """A linear map, given by the images of the 64 bits, on many states."""
    result = numpy.zeros_like(states)
    for bit, image in enumerate(operator):
        chosen = (states >> numpy.uint64(bit)) & numpy.uint64(1)
        result ^= chosen * image
    return result


@functools.cache
def _zeros(count: int) -> numpy.ndarray:
    """What `count` zero bytes do to a state."""
    if count == 0:
        return _BITS
    if count == 1:
        low = (_BITS & numpy.uint64(0xFF)).astype(numpy.int64)
        return _OF_BYTE[low] ^ (_BITS >> numpy.uint64(8))
    half = _zeros(count // 2)
    both = _apply(half, half)
    return _apply(_zeros(1), both) if count % 2 else both


def crc64(content: bytes) -> int:
    """Many pieces of the content at once, joined at the end."""
    lanes = min(_LANES_MAX, 1 << max(0, len(content) // 64).bit_length())
    width = -(-len(content) // (2 * lanes)) * 2
    # In front, zeros change nothing while the state is zero.
    padded = bytes(lanes * width - len(content)) + content
    pairs = numpy.frombuffer(padded, dtype="<u2").reshape(lanes, width // 2)
    states = numpy.zeros(lanes, dtype=numpy.uint64)
    low = numpy.uint64(0xFFFF)
    for column in pairs.T.astype(numpy.uint64, order="C"):
        index = ((states ^ column) & low).view(numpy.int64)
        states >>= numpy.uint64(16)
        states ^= numpy.take(_OF_PAIR, index)
    while len(states) > 1:
        states = _apply(_zeros(width), states[0::2]) ^ states[1::2]
        width *= 2
    start = numpy.array([_ONES], dtype=numpy.uint64)
    whole = states ^ _apply(_zeros(len(content)), start)
    return int(whole[0]) ^ _ONES


# --- Names and lines ----------------------------------------------------------


def unescape(text: str) -> str:
    """The name, as Python has names of files (os.fsdecode)."""
    raw = bytearray()
    for part in re.split("(%..)", text):
        if part.startswith("%"):
            if not re.fullmatch("%[0-9A-F]{2}", part):
                raise Damaged(f"{part!r} in a name is no escape")
            raw.append(int(part[1:], 16))
        else:
            raw += part.encode()
    return os.fsdecode(bytes(raw))


def _json_line(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Damaged(f"not a line of JSON: {error}") from error
    if not isinstance(value, dict):
        raise Damaged("a line that is no object")
    return value


def _check_path(path: str) -> None:
    parts = path.split("/")
    if path and any(part in ("", ".", "..") for part in parts):
        raise Damaged(f"path {path!r}")


# --- Manifests ----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Node:
    path: str
    type: str
    mode: int
    mtime_ns: int
    size: int
    target: str
    crcs: tuple[int, ...]
    shas: tuple[str, ...]
    key: str  # "" is the natural one.


@dataclasses.dataclass(frozen=True)
class Manifest:
    path: str  # run/name
    base: str
    sequence: int
    generation: str
    head: dict[str, Any]
    nodes: tuple[Node, ...]

    def key_of(self, node: Node) -> str:
        return node.key or f"{self.base}/{node.path}".lstrip("/")


def _pieces(text: str, width: int) -> list[str]:
    if len(text) % width:
        raise Damaged("digests of a wrong length")
    return [text[at : at + width] for at in range(0, len(text), width)]


def _node(line: dict[str, Any]) -> Node:
    crcs = [int(one, 16) for one in _pieces(line.get("crc64", ""), 16)]
    shas = _pieces(line.get("sha256", ""), 64)
    size = line.get("size", 0)
    blocks = -(-size // BLOCK_BYTES)
    if crcs and len(crcs) != blocks or shas and len(shas) != len(crcs):
        raise Damaged(f"{line['path']}: {len(crcs)} digests, {blocks} blocks")
    path = unescape(line["path"])
    _check_path(path)
    return Node(
        path=path,
        type=line["type"],
        mode=int(line["mode"], 8),
        mtime_ns=line["mtime_ns"],
        size=size,
        target=unescape(line.get("target", "")),
        crcs=tuple(crcs),
        shas=tuple(shas),
        key=unescape(line.get("key", "")),
    )


def _check_tail(lines: list[bytes]) -> None:
    tail = _json_line(lines[-1])
    before = b"".join(lines[:-1])
    if tail.get("end") is not True:
        raise Damaged("no tail")
    if tail["lines"] != len(lines) - 1:
        raise Damaged("the tail counts other lines")
    if tail["sha256"] != hashlib.sha256(before).hexdigest():
        raise Damaged("the tail has the digest of other lines")
    rest = [_json_line(line) for line in lines[1:-1]]
    files = sum(line["type"] in ("file", "hardlink") for line in rest)
    size = sum(line.get("size", 0) for line in rest)
    if tail["files"] != files or tail["bytes"] != size:
        raise Damaged("the tail counts other files or bytes")


def decode_manifest(data: bytes) -> Manifest:
    frame = zstandard.ZstdDecompressor().decompressobj()
    try:
        text = frame.decompress(data)
    except zstandard.ZstdError as error:
        raise Damaged(f"zstd: {error}") from error
    if not frame.eof:
        raise Damaged("the frame is cut short")
    if frame.unused_data:
        raise Damaged("something after the frame")
    lines = text.splitlines(keepends=True)
    if len(lines) < 2 or not lines[-1].endswith(b"\n"):
        raise Damaged("no whole lines")
    _check_tail(lines)
    head = _json_line(lines[0])
    if (head.get("cairn"), head.get("version")) != ("manifest", 1):
        raise Damaged("not a manifest of version 1")
    nodes = tuple(_node(_json_line(line)) for line in lines[1:-1])
    paths = [os.fsencode(node.path) for node in nodes]
    if any(one >= other for one, other in zip(paths, paths[1:], strict=False)):
        raise Damaged("paths do not ascend")
    run, name = unescape(head["run"]), unescape(head["name"])
    path = f"{run}/{name}" if run else name
    return Manifest(
        path=path,
        base=path if head["layout"] == "directory" else run,
        sequence=head["sequence"],
        generation=head["generation"],
        head=head,
        nodes=nodes,
    )


def manifests(tier: pathlib.Path) -> Iterator[tuple[pathlib.Path, Manifest]]:
    """Every one of a tier; each has to lie where its content says."""
    top = tier / ".cairn/manifests"
    for file in files_below(top):
        if file.name.startswith(".tmp-"):
            continue  # Being written when its writer was killed.
        manifest = decode_manifest(file.read_bytes())
        name = f"{manifest.sequence:020}-{manifest.generation}.jsonl.zst"
        if file != top / manifest.path / name:
            raise Damaged(f"{file} belongs to {manifest.path}/{name}")
        yield file, manifest


def files_below(top: pathlib.Path) -> list[pathlib.Path]:
    found = []
    for folder, _, names in os.walk(top):
        found += [pathlib.Path(folder, name) for name in names]
    return sorted(found)


# --- Marks --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, order=True)
class Mark:
    time_us: int
    file: str
    kind: str
    generation: str

    def counts_for(self, generation: str) -> bool:
        return self.generation in ("", generation)


def decode_mark(name: str, data: bytes) -> Mark:
    if not data.endswith(b"\n") or data.count(b"\n") != 1:
        raise Damaged(f"mark {name} is not one line")
    value = _json_line(data)
    if (value.get("cairn"), value.get("version")) != ("mark", 1):
        raise Damaged(f"mark {name} is not of version 1")
    check = value.pop("crc64")
    rest = json.dumps(
        value, sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    if check != f"{crc64(rest.encode()):016x}":
        raise Damaged(f"mark {name} has another CRC")
    return Mark(value["time_us"], name, value["kind"], value["generation"])


def marks(tiers: tuple[pathlib.Path, ...]) -> dict[str, list[Mark]]:
    """By checkpoint, in the order in which they apply; both tiers' together."""
    found: dict[str, dict[str, Mark]] = {}
    for tier in tiers:
        top = tier / ".cairn/marks"
        for file in files_below(top):
            if file.name.startswith(".tmp-"):
                continue
            mark = decode_mark(file.name, file.read_bytes())
            path = str(file.parent.relative_to(top))
            found.setdefault(path, {})[file.name] = mark
    return {path: sorted(of.values()) for path, of in found.items()}


def is_pinned(of: list[Mark], generation: str) -> bool:
    kinds = [m.kind for m in of if m.counts_for(generation)]
    last = [kind for kind in kinds if kind in ("pin", "unpin")][-1:]
    return last == ["pin"]


def is_released(of: list[Mark], generation: str) -> bool:
    kinds = [m.kind for m in of if m.counts_for(generation)]
    last = [kind for kind in kinds if kind in ("release", "present")][-1:]
    return last == ["release"]


# --- Uploads of a core tier in a directory ------------------------------------


def upload_parts(core: pathlib.Path, key: str) -> int:
    """Bytes of `key` that the journals of unfinished uploads vouch for."""
    held = 0
    for folder in sorted((core / ".cairn-store/uploads").glob("*")):
        try:
            info = json.loads((folder / "info").read_text())
            journal = (folder / "parts").read_bytes()
        except FileNotFoundError:
            continue
        if unescape(info["key"]) != key or not (folder / "data").exists():
            continue
        sizes: dict[int, int] = {}
        for line in journal.split(b"\n")[:-1]:
            fields, _, check = line.rpartition(b" ")
            if check.decode() == f"{crc64(fields):016x}":
                number, size = fields.split()[:2]
                sizes[int(number)] = int(size)
        held = max(held, sum(sizes.values()))
    return held
