"""What has to hold of the tiers after a kill, and once the work is done.

An Expected says what should be of one checkpoint; a State, of all. The
scenario gives the State before a verb and the one after it. While the verb is
cut short, everything must be as one of the two has it, and whatever is there
must be whole:

- an object on the core tier under its key is complete and right;
- a manifest is whole, and what it names is there and right (design, truth 2);
- at a checkpoint's place lie its right files or none of them;
- what the user wrote is there, unless a manifest on the core tier, whose
  objects were compared just now, and a durable release mark stand for it
  (truth 5);
- pins hold.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Iterable

import tiers
from checkpoints import (
    Content,
    Digests,
    Entry,
    Tree,
    differences,
    node_differs,
    tree_of,
)

DAMAGED = "damaged"  # Label of a content that the disk, not the user, made.


@dataclasses.dataclass(frozen=True)
class Expected:
    place: Content | None = None  # What lies at its place.
    local: Content | None = None  # Has a manifest on the accelerator tier.
    core: frozenset[Content] = frozenset()  # Have one on the core tier.
    released: frozenset[Content] = frozenset()
    pinned: bool = False


State = dict[str, Expected]


@dataclasses.dataclass(frozen=True)
class Step:
    """Between two states, or done: then `before` is `after`."""

    before: State
    after: State
    done: bool

    def paths(self) -> list[str]:
        return sorted(self.before.keys() | self.after.keys())

    def of(self, path: str) -> tuple[Expected, Expected]:
        nothing = Expected()
        after = self.after.get(path, nothing)
        before = after if self.done else self.before.get(path, nothing)
        return before, after


class Judge:
    """Looks at the tiers of one workspace. One thread at a time."""

    def __init__(
        self,
        accelerator: pathlib.Path,
        core: pathlib.Path,
        contents: Iterable[Content],
        digests: Digests,
    ) -> None:
        self.accelerator = accelerator
        self.core = core
        self.contents = list(contents)
        self.digests = digests
        self._problems: list[str] = []
        self._on_core: dict[Content, str] = {}  # Generation.
        self._on_accelerator: dict[Content, str] = {}
        self._named: set[str] = set()  # Keys.
        self._twice: list[str] = []
        self._marks: dict[str, list[tiers.Mark]] = {}

    def problems(self, step: Step, swept: bool = False) -> list[str]:
        """With `swept`, nothing may be left over either."""
        self._problems = []
        try:
            self._read_manifests()
            self._marks = tiers.marks((self.core, self.accelerator))
            on_core = tiers.marks((self.core,))
        except tiers.Damaged as damage:
            return [str(damage)]
        self._check_objects()
        for path in step.paths():
            self._check_manifests(path, step)
            self._check_marks(path, step, on_core.get(path, []))
            self._check_place(path, step)
        self._check_nothing_else(step)
        # A commit that is killed before it is recorded is made anew.
        if step.done and self._twice:
            self._say(f"two manifests for {self._twice}")
        for tier in (self.accelerator, self.core):
            if not (tier / ".cairn/tier.json").is_file():
                self._say(f"{tier} has no tier.json")
        if swept:
            self._check_swept()
        return self._problems

    def generations(self, path: str) -> dict[Content, str]:
        both = {**self._on_accelerator, **self._on_core}
        return {c: g for c, g in both.items() if c.path == path}

    def _say(self, problem: str) -> None:
        self._problems.append(problem)

    # --- The core tier --------------------------------------------------------

    def _read_manifests(self) -> None:
        self._on_core, self._on_accelerator = {}, {}
        self._named, self._twice = set(), []
        for file, manifest in tiers.manifests(self.core):
            content = self._content_of(file, manifest)
            if content is not None:
                if content in self._on_core:
                    self._twice.append(f"{content} on the core tier")
                self._on_core[content] = manifest.generation
                self._check_archived(content, manifest)
        for file, manifest in tiers.manifests(self.accelerator):
            content = self._content_of(file, manifest)
            if content is not None:
                if content in self._on_accelerator:
                    self._twice.append(f"{content} on the accelerator tier")
                self._on_accelerator[content] = manifest.generation

    def _content_of(
        self, file: pathlib.Path, manifest: tiers.Manifest
    ) -> Content | None:
        """The content that a manifest describes."""
        why = "no such checkpoint"
        for content in self.contents:
            if content.path != manifest.path or content.label == DAMAGED:
                continue
            wrong = [
                f"{node.path!r}: {what}"
                for node in manifest.nodes
                if (what := node_differs(node, content))
            ]
            missing = content.tree.keys() - {n.path for n in manifest.nodes}
            wrong += [f"{name!r} is not in it" for name in missing]
            if not wrong:
                return content
            why = "; ".join(wrong[:3])
        self._say(f"{file} describes nothing that was ever written: {why}")
        return None

    def _check_archived(
        self, content: Content, manifest: tiers.Manifest
    ) -> None:
        for node in manifest.nodes:
            if node.type != "file":
                continue
            if node.size and not (node.crcs and node.shas):
                self._say(f"core manifest of {content}: no digests")
            key = manifest.key_of(node)
            self._named.add(key)
            right = content.tree[node.path]
            try:
                found = self.digests.of_file(self.core / key)
            except FileNotFoundError:
                self._say(
                    f"{content} is committed; object {key!r} is not there"
                )
                continue
            if found != right.content:
                self._say(f"{content} is committed; object {key!r} is wrong")

    def _objects(self) -> list[str]:
        found = []
        for file in tiers.files_below(self.core):
            key = str(file.relative_to(self.core))
            kept = (".cairn-store/", ".cairn/manifests/", ".cairn/marks/")
            if not key.startswith(kept) and key != ".cairn/tier.json":
                found.append(key)
        return found

    def _check_objects(self) -> None:
        """Also those that no manifest names yet."""
        by_key: dict[str, set[str]] = {}
        by_name: dict[str, set[str]] = {}
        for content in self.contents:
            for path, entry in content.files().items():
                shas = (
                    by_name.setdefault(path, set()),
                    by_key.setdefault(f"{content.base}/{path}", set()),
                    by_key.setdefault(
                        f".cairn/objects/{content.sha_of_blocks(path)}", set()
                    ),
                )
                for one in shas:
                    one.add(entry.content)
        for key in self._objects():
            if key.startswith(".cairn/generations/"):
                right = by_name.get(key.split("/", 3)[3], set())
            else:
                right = by_key.get(key, set())
            if self.digests.of_file(self.core / key) not in right:
                self._say(f"object {key!r} is not whole, or nobody's")

    # --- One checkpoint -------------------------------------------------------

    def _check_manifests(self, path: str, step: Step) -> None:
        before, after = step.of(path)
        core = {c for c in self._on_core if c.path == path}
        if not before.core & after.core <= core <= before.core | after.core:
            self._say(
                f"{path}: manifests on the core tier for {core or 'nothing'},"
                f" not {set(after.core) or 'nothing'}"
            )
        local = {c for c in self._on_accelerator if c.path == path}
        may = {c for c in (before.local, after.local) if c is not None}
        must = may if before.local is after.local else set()
        if not must <= local <= may:
            self._say(
                f"{path}: manifests on the accelerator tier for"
                f" {local or 'nothing'}, not {after.local}"
            )

    def _check_marks(
        self, path: str, step: Step, on_core: list[tiers.Mark]
    ) -> None:
        before, after = step.of(path)
        generations = self.generations(path)
        for content, generation in generations.items():
            found = tiers.is_pinned(self._marks.get(path, []), generation)
            if found not in (before.pinned, after.pinned):
                self._say(f"{path} is pinned: {found}")
            if step.done and tiers.is_pinned(on_core, generation) != found:
                self._say(f"{path}: the core tier says otherwise of its pin")
            may = {content in before.released, content in after.released}
            if tiers.is_released(on_core, generation) not in may:
                self._say(f"{path}: marked as released: {may}, not so")

    def _check_place(self, path: str, step: Step) -> None:
        before, after = step.of(path)
        allowed = [c for c in (before.place, after.place) if c is not None]
        known = allowed or [c for c in self.contents if c.path == path]
        base = known[0].place(self.accelerator)
        found = tree_of(base, list(known[0].names), self.digests)
        if before.place is after.place:
            self._check_exact(path, after.place, found)
        elif known[0].names == ("",):
            trees: list[Tree] = [{}, *(c.tree for c in allowed)]
            if found not in trees:
                best = min((differences(t, found) for t in trees), key=len)
                self._say(f"{path} is neither whole nor absent: {best[:3]}")
        else:
            self._check_each(path, allowed, found)
        if before.place is not None:
            self._check_kept(path, before.place, after, found)
        self._check_vouched(path, before, found)

    def _check_exact(
        self, path: str, content: Content | None, found: Tree
    ) -> None:
        wrong = differences(content.tree if content else {}, found)
        if wrong:
            self._say(f"{path} is not {content}: {wrong[:3]}")

    def _check_each(
        self, path: str, allowed: list[Content], found: Tree
    ) -> None:
        for name, entry in found.items():
            right: list[Entry] = [c.tree[name] for c in allowed]
            if entry not in right:
                self._say(f"{path}: {name!r} is partial or wrong: {entry}")

    def _check_kept(
        self, path: str, content: Content, after: Expected, found: Tree
    ) -> None:
        """What was there is there, or stands archived, released by us."""
        if content.tree.keys() <= found.keys():
            return
        safe = after.place if content.label == DAMAGED else content
        if safe not in self._on_core:
            self._say(f"{path} is gone and not archived")
            return
        if content.label == DAMAGED:
            return  # Being replaced by the right one.
        of = self._marks.get(path, [])
        if not tiers.is_released(of, self._on_core[content]):
            self._say(f"{path} is gone without a release mark")

    def _check_vouched(self, path: str, before: Expected, found: Tree) -> None:
        """A manifest on the accelerator tier stands for what lies there."""
        for content in self._on_accelerator:
            if content.path != path:
                continue
            by_user = before.local is content and before.place is not content
            if not by_user and found != content.tree:
                wrong = differences(content.tree, found)
                self._say(f"{path} has a manifest but not this: {wrong[:3]}")

    # --- Everything else ------------------------------------------------------

    def _check_nothing_else(self, step: Step) -> None:
        folders, files = set(), set()
        for content in self.contents:
            if content.names == ("",):
                folders.add(content.path)
            else:
                files |= {f"{content.base}/{name}" for name in content.names}
        for file in tiers.files_below(self.accelerator):
            path = str(file.relative_to(self.accelerator))
            ours = path.startswith(".cairn/") or path in files
            if ours or any(path.startswith(f"{f}/") for f in folders):
                continue
            run, _, name = path.rpartition("/")
            text = file.read_text() if name == "latest" else ""
            if f"{run}/{text.strip()}" not in folders:
                self._say(f"{path} came from nowhere")

    def _check_swept(self) -> None:
        for key in self._objects():
            if key not in self._named:
                self._say(f"object {key!r} is left, and no manifest names it")
        left = list((self.core / ".cairn-store/uploads").glob("*/info"))
        left += (self.accelerator / ".cairn/staging").glob("*")
        for file in tiers.files_below(self.accelerator / ".cairn"):
            if file.name.startswith(".tmp-"):
                left.append(file)
        for file in left:
            self._say(f"{file} is left")


# --- What was safely copied before --------------------------------------------


def durable_on_core(
    content: Content, core: pathlib.Path, digests: Digests
) -> int:
    """Bytes of it that no export has to send again."""
    total = 0
    for path, entry in content.files().items():
        natural = f"{content.base}/{path}"
        keys = [
            core / natural,
            core / ".cairn/objects" / content.sha_of_blocks(path),
            *(core / ".cairn/generations").glob(f"*/{_pattern(path)}"),
        ]
        if any(_is(key, entry, digests) for key in keys):
            total += entry.size
        elif entry.size > tiers.BLOCK_BYTES:
            total += tiers.upload_parts(core, natural)
    return total


def _pattern(path: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def _is(file: pathlib.Path, entry: Entry, digests: Digests) -> bool:
    return file.is_file() and digests.of_file(file) == entry.content


def durable_in_staging(
    content: Content, accelerator: pathlib.Path, digests: Digests
) -> int:
    """Bytes of it that no restore has to fetch again."""
    trees = list((accelerator / ".cairn/staging").glob("restore-*/tree"))
    total = 0
    for path, entry in content.files().items():
        if _is(content.place(accelerator) / path, entry, digests):
            total += entry.size
            continue
        for tree in trees:
            total += _right_blocks(tree / path, content.blocks[path])
    return total


def _right_blocks(
    file: pathlib.Path, blocks: tuple[tuple[int, str], ...]
) -> int:
    """Of an unfinished file; its last block may still be too long."""
    total = 0
    try:
        with open(file, "rb", opener=_open_quietly) as opened:
            for _, sha in blocks:
                block = opened.read(tiers.BLOCK_BYTES)
                if hashlib.sha256(block).hexdigest() == sha:
                    total += len(block)
    except FileNotFoundError:
        pass
    return total


def _open_quietly(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)
