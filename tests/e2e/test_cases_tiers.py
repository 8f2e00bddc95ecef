"""The tiers hold the truth: rebuild from them, and refuse the wrong ones.

Of T09, B53 belongs here in part: emptiness without an identity is not believed.
"""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from cases import (
    archive,
    assert_same,
    bytes_moved,
    cut,
    flip,
    listing,
    make,
    noise,
    write_files,
    zero,
)
from workspace import Workspace, tree_of


def everything(w: Workspace) -> dict[str, object]:
    """All that cairn says of all generations."""
    checkpoints = w.json("ls", "--all-generations")["checkpoints"]
    return {"ls": w.json("ls"), "all": checkpoints}


@pytest.fixture
def lived(cairn: Workspace) -> Workspace:
    """A store that has seen everything that a checkpoint's life may bring."""
    w = cairn
    for step in range(1, 5):
        make(w, f"run/step-{step}")
    make(w, "odd \u00e9%/step=7")
    make(w, "run/by-hand", marker=False)
    w.run("scan")
    w.run(
        *("adopt", "run/by-hand", "--step", "90", "--epoch", "3"),
        *("--label", "code=4f2a91c", "--label", "lr=0.1"),
    )
    source = w.directory / "source"
    write_files(source, {"w.raw": noise(1000)})
    w.run("save", "other/first", "--from", str(source), "--step", "5")
    w.run("export", "--all")
    w.run("release", "run/step-1", "run/step-2")  # One stays away,
    w.run("restore", "run/step-2")  # the other came back.
    w.run("pin", "run/step-3", "--reason", "the paper")
    w.run("pin", "run/step-2", "--for", "30d", "--reason", "to compare")
    w.run("pin", "other/first")
    w.run("unpin", "other/first")
    # A second generation of one; the first is archived.
    shutil.rmtree(w.accelerator / "run" / "step-4")
    make(w, "run/step-4", {"w.raw": b"anew"})
    os.utime(w.accelerator / "run" / "step-4" / "DONE", (1e9, 1e9))
    make(w, "run/step-5")
    archive(w)
    make(w, "run/step-6")  # Not archived.
    shutil.rmtree(w.accelerator / "odd \u00e9%")  # Deleted by its owner.
    w.run("scan")
    return w


def test_rebuild_gives_the_same(lived: Workspace) -> None:
    """Pins, holds, releases, labels, generations: all stand on the tiers."""
    before = everything(lived)
    after_life = listing(lived)
    assert after_life["run/step-1"]["state"] == "released"
    assert after_life["run/step-3"]["pinned"]
    assert after_life["run/step-2"]["hold_until"]
    assert after_life["run/by-hand"]["labels"] == {
        "code": "4f2a91c",
        "lr": "0.1",
    }
    shutil.rmtree(lived.directory / "cairn-state")
    lived.run("rebuild")
    assert everything(lived) == before
    # Nothing to do, and nothing to copy again: what was known of the files was
    # in the catalog, so they are read once more, and are as they were.
    for change in lived.json("scan")["changes"]:
        assert change["result"] == "done"
        # What was never archived has no digests to compare with.
        equal = "the content is the one committed" in change["message"]
        assert equal or "was never read yet" in change["message"]
    assert lived.json("scan")["changes"] == []
    assert everything(lived) == before
    assert bytes_moved(lived.json("export", "--all")) == 10_000  # Of step-6.
    lived.run("verify", "--all")
    lived.run("release", "run/step-3", code=1)


def test_rebuild_is_not_even_needed(lived: Workspace) -> None:
    """An empty catalog is filled by whoever opens it first."""
    before = everything(lived)
    shutil.rmtree(lived.directory / "cairn-state")
    assert everything(lived) == before


def test_rebuild_on_a_new_disk(lived: Workspace) -> None:
    """The accelerator tier and the catalog are gone: what is archived stays."""
    before = {
        path: info["generation"]
        for path, info in listing(lived).items()
        if info["archived"]
    }
    tree = tree_of(lived.accelerator / "run" / "step-5")
    lived.wipe()
    shutil.rmtree(lived.directory / "cairn-state")
    lived.init("--replace-accelerator")
    after = listing(lived)
    assert {path: c["generation"] for path, c in after.items()} == before
    assert after["run/step-3"]["pinned"]
    answer = lived.run("latest", "run", "--restore")
    assert answer.out == f"{lived.accelerator / 'run' / 'step-5'}\n"
    assert_same(tree, lived.accelerator / "run" / "step-5")


@pytest.mark.parametrize("how", ["empty", "zeros", "half", "flip"])
def test_damaged_catalog(lived: Workspace, how: str) -> None:
    """B80, of the state: never a wrong answer; the same one after rebuild."""
    before = everything(lived)
    path = lived.directory / "cairn-state" / "catalog.db"
    for beside in path.parent.glob("catalog.db-*"):
        beside.unlink()
    size = path.stat().st_size
    if how == "empty":
        cut(path, 0)
    elif how == "zeros":
        zero(path)
    elif how == "half":
        cut(path, size // 2)
    else:
        flip(path, 20)  # In the header.
    answer = lived.call("ls", "--json")
    if answer.code != 0:
        assert "cairn rebuild" in answer.err, answer
        lived.run("rebuild")
    assert everything(lived) == before


VERBS = [
    ("scan",),
    ("commit", "run/step-9"),
    ("adopt", "run/step-9"),
    ("ls",),
    ("show", "run/step-1"),
    ("latest", "run"),
    ("latest", "run", "--restore"),
    ("export", "--all"),
    ("restore", "run/step-1"),
    ("verify", "--all"),
    ("release", "--all"),
    ("remove", "--tier", "core", "run/step-1"),
    ("sweep",),
    ("pin", "run/step-1"),
    ("unpin", "run/step-3"),
    ("rebuild",),
]


def assert_refused(w: Workspace, tier: pathlib.Path) -> None:
    """By every verb, with the tier's name, and without touching it."""
    state = tree_of(w.directory / "cairn-state")
    names = tree_of(tier).keys()
    other = w.core if tier == w.accelerator else w.accelerator
    before = tree_of(other)
    for verb in VERBS:
        answer = w.call(*verb)
        assert answer.code == 1, (verb, answer)
        assert str(tier) in answer.err, (verb, answer)
        assert answer.out == "", (verb, answer)
    assert tree_of(tier).keys() == names
    assert_same(before, other)
    after = tree_of(w.directory / "cairn-state")
    assert {n for n in state if not n.startswith((b"locks", b"catalog"))} == {
        n for n in after if not n.startswith((b"locks", b"catalog"))
    }


def the_tier(w: Workspace, tier: str) -> pathlib.Path:
    return w.core if tier == "core" else w.accelerator


@pytest.mark.parametrize("tier", ["accelerator", "core"])
def test_unmounted_tier(lived: Workspace, tier: str) -> None:
    """B53: an empty directory, where a file system should be, means nothing."""
    before = everything(lived)
    place = the_tier(lived, tier)
    away = place.with_name("away")
    place.rename(away)
    place.mkdir()
    assert_refused(lived, place)
    place.rmdir()
    # Not even the directory is there.
    answer = lived.call("scan")
    assert answer.code == 1 and str(place) in answer.err
    away.rename(place)
    assert everything(lived) == before
    lived.run("verify", "--all")


@pytest.mark.parametrize("tier", ["accelerator", "core"])
def test_exchanged_tier(
    lived: Workspace, cairn_program: str, tier: str
) -> None:
    """Another store's tier, with an identity of its own, is refused too."""
    before = everything(lived)
    foreign = Workspace(cairn_program, lived.directory / "foreign")
    foreign.init()
    make(foreign, "run/step-1")
    archive(foreign)
    place, its = the_tier(lived, tier), the_tier(foreign, tier)
    away = place.with_name("away")
    place.rename(away)
    its.rename(place)
    assert_refused(lived, place)
    place.rename(its)
    away.rename(place)
    assert everything(lived) == before
    foreign.run("verify", "--all")


@pytest.mark.parametrize("tier", ["accelerator", "core"])
@pytest.mark.parametrize("how", ["flip", "zeros", "empty"])
def test_identity_that_cannot_be_read(
    lived: Workspace, tier: str, how: str
) -> None:
    """A damaged tier.json is no identity."""
    before = everything(lived)
    place = the_tier(lived, tier)
    path = place / ".cairn" / "tier.json"
    content = path.read_bytes()
    if how == "flip":
        flip(path, content.index(b'"id"') + 8)
    elif how == "zeros":
        zero(path)
    else:
        cut(path, 0)
    for verb in VERBS:
        answer = lived.call(*verb)
        assert answer.code in (1, 3), (verb, answer)
        assert answer.out == ""
        assert "tier.json" in answer.err
    path.unlink()
    path.write_bytes(content)
    assert everything(lived) == before


def test_new_disk_has_to_be_said(lived: Workspace) -> None:
    """A wiped accelerator tier is taken for a new one on the user's word."""
    lived.wipe()
    answer = lived.call(
        "init", "--accelerator", "./acc", "--core", f"file://{lived.core}"
    )
    assert answer.code == 1
    assert "--replace-accelerator" in answer.err
    lived.init("--replace-accelerator")
    assert listing(lived)["run/step-5"]["archived"]


@pytest.mark.parametrize("tier", ["accelerator", "core"])
def test_init_on_an_unmounted_tier(lived: Workspace, tier: str) -> None:
    """Not even `init` gives an identity to what is only not mounted."""
    place = the_tier(lived, tier)
    away = place.with_name("away")
    place.rename(away)
    place.mkdir()
    answer = lived.call(
        "init", "--accelerator", "./acc", "--core", f"file://{lived.core}"
    )
    assert answer.code == 1
    assert str(place) in answer.err and "mount" in answer.err
    assert not (place / ".cairn" / "tier.json").exists()
    place.rename(away.with_name("empty"))
    away.rename(place)
    lived.run("verify", "--all")
