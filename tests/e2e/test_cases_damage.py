"""Damage, anywhere on either tier, is found, named and never restored (T07).

B42. The rest of T07 waits for an object server: a body that is cut on the way
(B38, B40), and objects that others stored with or without a hash (B43).
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Callable

import pytest
from cases import (
    BLOCK,
    archive,
    assert_same,
    change_of,
    cut,
    flip,
    listing,
    make,
    manifests,
    noise,
    result_of,
    staging,
    zero,
)
from workspace import Workspace, tree_of

LARGE = BLOCK + (1 << 20)
FILES = {
    "large.raw": noise(LARGE),
    "sub/small.raw": noise(10_000, 1),
    "percent%.raw": noise(500, 2),
}


@dataclasses.dataclass(frozen=True)
class Spoil:
    """A way to damage a file, and what `verify` has to say of it."""

    id: str
    file: str
    act: Callable[[pathlib.Path], None]
    kind: str
    offset: int


SPOILS = [
    Spoil("flip", "large.raw", lambda p: flip(p, BLOCK + 99), "corrupt", BLOCK),
    Spoil("flip-first", "large.raw", lambda p: flip(p, 0), "corrupt", 0),
    Spoil("cut", "large.raw", lambda p: cut(p, 77), "truncated", 77),
    Spoil(
        "cut-one", "large.raw", lambda p: cut(p, LARGE - 1), "truncated",
        LARGE - 1,
    ),
    Spoil("missing", "large.raw", lambda p: p.unlink(), "missing", 0),
    Spoil("zeros", "large.raw", zero, "zero-filled", 0),
    Spoil("flip-small", "sub/small.raw", lambda p: flip(p, 9999), "corrupt", 0),
    Spoil("cut-small", "sub/small.raw", lambda p: cut(p, 0), "truncated", 0),
    Spoil("missing-small", "sub/small.raw", lambda p: p.unlink(), "missing", 0),
    Spoil("zeros-small", "sub/small.raw", zero, "zero-filled", 0),
    Spoil("escaped", "percent%.raw", lambda p: flip(p, 3), "corrupt", 0),
    Spoil("marker", "DONE", lambda p: p.unlink(), "missing", 0),
]  # fmt: skip
# An empty file is restored from the manifest alone.
RESTORED = [spoil for spoil in SPOILS if spoil.id != "marker"]
TIERS = ("accelerator", "core")


@pytest.fixture(params=SPOILS, ids=lambda spoil: spoil.id)
def spoil(request: pytest.FixtureRequest) -> Spoil:
    found: Spoil = request.param
    return found


@pytest.fixture
def two(cairn: Workspace) -> Workspace:
    """Two archived checkpoints of a run, on both tiers."""
    make(cairn, "run/step-1")
    cairn.run("scan")
    make(cairn, "run/step-2", FILES)
    archive(cairn)
    return cairn


def place(w: Workspace, tier: str) -> pathlib.Path:
    """Of the newer one; the core tier has natural keys."""
    return (w.core if tier == "core" else w.accelerator) / "run" / "step-2"


def other(tier: str) -> str:
    return "core" if tier == "accelerator" else "accelerator"


@pytest.mark.parametrize("tier", TIERS)
def test_verify_finds_it(two: Workspace, tier: str, spoil: Spoil) -> None:
    """Exit code 3; the file and the offset, for programs and for people."""
    spoil.act(place(two, tier) / spoil.file)
    name = f"run/step-2/{spoil.file}".replace("%", "%25")
    report = two.json("verify", "run/step-2", "--tier", tier, code=3)
    outcome = result_of(report, "run/step-2")
    assert not outcome["good"] and outcome["tier"] == tier
    damages = [
        (d["tier"], d["file"], d["kind"], d["offset"])
        for d in outcome["damages"]
    ]
    assert damages == [(tier, name, spoil.kind, spoil.offset)]
    answer = two.run("verify", "run/step-2", code=3)
    assert name in answer.out + answer.err
    if spoil.kind != "missing":
        assert str(spoil.offset) in answer.out + answer.err
    two.run("verify", "run/step-2", "--tier", other(tier))
    report = two.json("verify", "--all", code=3)
    good = [(o["path"], o["tier"]) for o in report["outcomes"] if o["good"]]
    assert sorted(good) == sorted(
        [("run/step-1", t) for t in TIERS] + [("run/step-2", other(tier))]
    )
    assert listing(two)["run/step-2"]["damaged"]
    assert two.json("status", code=3)["damaged"] == 1


def test_damaged_copy_is_replaced_by_the_archived(
    two: Workspace, spoil: Spoil
) -> None:
    """Nobody has verified anything: `latest --restore` still sees it."""
    before = tree_of(place(two, "accelerator"))
    spoil.act(place(two, "accelerator") / spoil.file)
    answer = two.call("latest", "run")
    assert answer.code != 0 and answer.out == ""
    assert "--restore" in answer.err
    answer = two.run("latest", "run", "--restore")
    assert answer.out == f"{place(two, 'accelerator')}\n"
    assert "damaged copy" in answer.err
    assert_same(before, place(two, "accelerator"))
    two.run("verify", "run/step-2")


@pytest.mark.parametrize("spoil", RESTORED, ids=lambda spoil: spoil.id)
def test_damaged_archive_is_not_restored(two: Workspace, spoil: Spoil) -> None:
    """`restore` refuses, `latest --restore` falls back, and says so."""
    one = tree_of(two.accelerator / "run" / "step-1")
    shutil.rmtree(two.accelerator / "run")
    two.run("scan")
    spoil.act(place(two, "core") / spoil.file)
    name = f"run/step-2/{spoil.file}".replace("%", "%25")

    answer = two.run("restore", "run/step-2", code=3)
    assert name in answer.err
    assert not place(two, "accelerator").exists()
    report = two.json("latest", "run", "--restore")
    assert report["checkpoint"]["path"] == "run/step-1"
    assert [p["path"] for p in report["passed_over"]] == ["run/step-2"]
    assert spoil.file.replace("%", "%25") in report["passed_over"][0]["reason"]
    assert_same(one, two.accelerator / "run" / "step-1")
    answer = two.run("latest", "run")
    assert answer.out == f"{two.accelerator / 'run' / 'step-1'}\n"
    assert "run/step-2" in answer.err
    assert not place(two, "accelerator").exists()
    # It is damage of an archive, not lost space.
    two.run("sweep")
    assert staging(two) == []


@pytest.mark.parametrize("spoil", RESTORED[::3], ids=lambda spoil: spoil.id)
def test_fall_back_without_asking_for_restore_first(
    two: Workspace, spoil: Spoil
) -> None:
    """The same where `latest --restore` is the first to meet it."""
    shutil.rmtree(two.accelerator / "run")
    two.run("scan")
    spoil.act(place(two, "core") / spoil.file)
    answer = two.run("latest", "run", "--restore")
    assert answer.out == f"{two.accelerator / 'run' / 'step-1'}\n"
    assert "run/step-2" in answer.err


def test_both_copies_damaged(two: Workspace) -> None:
    """Both of the newer one are bad: the older is the newest good one."""
    for tier in TIERS:
        flip(place(two, tier) / "large.raw", 5)
    two.run("verify", "run/step-2", code=3)
    report = two.json("latest", "run")
    assert report["checkpoint"]["path"] == "run/step-1"
    assert [p["path"] for p in report["passed_over"]] == ["run/step-2"]
    after = listing(two)["run/step-2"]
    assert after["damaged"] and after["lost"]
    assert two.json("status", code=3)["lost"] == 1
    # No good copy at all: data is lost, and nothing is printed as a path.
    flip(two.accelerator / "run" / "step-1" / "weights.raw", 5)
    flip(two.core / "run" / "step-1" / "weights.raw", 5)
    for arguments in (("latest", "run"), ("latest", "run", "--restore")):
        answer = two.call(*arguments)
        assert answer.out == ""
        if "--restore" in arguments:
            assert answer.code == 3
            assert "run/step-1" in answer.err and "run/step-2" in answer.err


def test_damage_before_the_archive_is_not_archived(cairn: Workspace) -> None:
    """What is damaged here must not become the good copy there."""
    folder = make(cairn, "run/step-1", FILES)
    cairn.run("scan")
    cut(folder / "large.raw", 1000)
    report = cairn.json("export", "--all", code=3)
    assert result_of(report, "run/step-1")["result"] == "damaged"
    assert not listing(cairn)["run/step-1"]["archived"]
    assert manifests(cairn.core, "run/step-1") == []


@pytest.mark.parametrize("kind", ["cut", "missing"])
def test_verify_before_the_archive(cairn: Workspace, kind: str) -> None:
    """Without digests, sizes and formats are checked, and it says so."""
    header = json.dumps(
        {"a": {"dtype": "U8", "shape": [5000], "data_offsets": [0, 5000]}}
    ).encode()
    whole = len(header).to_bytes(8, "little") + header + noise(5000)
    folder = make(cairn, "run/step-1", {"m.safetensors": whole})
    cairn.run("scan")
    answer = cairn.run("verify", "run/step-1")
    assert "no digests" in answer.out
    path = folder / "m.safetensors"
    if kind == "cut":
        cut(path, len(whole) - 100)
    else:
        path.unlink()
    report = cairn.json("verify", "run/step-1", code=3)
    damage = result_of(report, "run/step-1")["damages"][0]
    assert damage["file"] == "run/step-1/m.safetensors"


def test_deleted_by_its_owner_is_no_damage(two: Workspace) -> None:
    """All of it gone is not a missing file; nothing counts as damaged."""
    shutil.rmtree(place(two, "accelerator"))
    report = two.json("verify", "run/step-2", code=5)
    outcomes = {o["tier"]: o for o in report["outcomes"]}
    assert outcomes["core"]["good"]
    assert outcomes["accelerator"]["damages"] == []
    assert "cairn scan" in outcomes["accelerator"]["message"]
    assert not listing(two)["run/step-2"]["damaged"]
    two.run("scan")
    two.run("verify", "--all")


def test_changed_evidence_is_not_laundered(two: Workspace) -> None:
    """A damaged copy is not exported over, or released for, the good one."""
    flip(place(two, "accelerator") / "large.raw", 5)
    make(two, "run/step-3")
    two.run("scan", code=3)
    two.run("export", "--all")
    answer = two.call("release", "run/step-2")
    assert answer.code != 0
    assert place(two, "accelerator").exists()
    two.run("verify", "run/step-2", "--tier", "core")


def test_damaged_archive_is_not_relied_on(two: Workspace) -> None:
    """Nothing is released whose archived copy is bad or not all there."""
    make(two, "run/step-3")
    archive(two)
    (place(two, "core") / "large.raw").unlink()
    answer = two.call("release", "run/step-2")
    assert answer.code != 0
    assert "large.raw" in answer.out + answer.err
    assert place(two, "accelerator").exists()
    flip(two.core / "run" / "step-1" / "weights.raw", 5)
    two.run("verify", "run/step-1", code=3)
    answer = two.call("release", "run/step-1")
    assert answer.code != 0
    assert (two.accelerator / "run" / "step-1").exists()


def test_archive_is_made_good_from_the_accelerator(two: Workspace) -> None:
    """As the message says: remove the bad copy, then export again."""
    flip(place(two, "core") / "large.raw", 5)
    two.run("verify", "run/step-2", "--tier", "core", code=3)
    answer = two.call("export", "run/step-2")
    assert answer.code == 3
    assert "remove --tier core" in answer.out + answer.err
    two.run("remove", "--tier", "core", "run/step-2")
    two.run("export", "run/step-2")
    two.run("verify", "run/step-2")
    assert not listing(two)["run/step-2"]["damaged"]


# --- cairn's own records ------------------------------------------------------

RECORD_SPOILS: dict[str, Callable[[pathlib.Path], None]] = {
    "flip": lambda p: flip(p, os.stat(p).st_size // 2),
    "cut": lambda p: cut(p, os.stat(p).st_size - 1),
    "empty": lambda p: cut(p, 0),
    "zeros": zero,
    "missing": lambda p: p.unlink(),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("how", RECORD_SPOILS)
def test_damaged_manifest(two: Workspace, tier: str, how: str) -> None:
    """It is damage of the checkpoint there, by its name; the other tier's
    manifest still brings it back."""
    top = two.core if tier == "core" else two.accelerator
    (path,) = manifests(top, "run/step-2")
    before = tree_of(place(two, "accelerator"))
    RECORD_SPOILS[how](path)
    report = two.json("verify", "run/step-2", "--tier", tier, code=3)
    (damage,) = result_of(report, "run/step-2")["damages"]
    assert damage["file"] == str(path.relative_to(top))
    assert damage["kind"] in ("missing", "corrupt")
    answer = two.run("verify", "run/step-2", "--tier", tier, code=3)
    assert path.name in answer.out + answer.err
    two.run("verify", "run/step-2", "--tier", other(tier))

    shutil.rmtree(two.accelerator / "run")
    if tier == "accelerator":
        two.run("restore", "run/step-2")
        assert_same(before, place(two, "accelerator"))
        two.run("verify", "run/step-2")
        return
    two.run("restore", "run/step-2", code=3)
    report = two.json("latest", "run", "--restore")
    assert report["checkpoint"]["path"] == "run/step-1"
    assert [p["path"] for p in report["passed_over"]] == ["run/step-2"]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("how", RECORD_SPOILS)
def test_rebuild_beside_a_damaged_manifest(
    two: Workspace, tier: str, how: str
) -> None:
    """One bad record hides nothing else, and is named."""
    top = two.core if tier == "core" else two.accelerator
    (path,) = manifests(top, "run/step-2")
    RECORD_SPOILS[how](path)
    shutil.rmtree(two.directory / "cairn-state")
    answer = two.call("rebuild")
    if how != "missing":
        assert answer.code == 3
        assert path.name in answer.out + answer.err
    after = listing(two)
    assert after.keys() == {"run/step-1", "run/step-2"}
    assert not after["run/step-1"]["damaged"]
    two.run("verify", "run/step-1")


@pytest.mark.parametrize("how", RECORD_SPOILS)
def test_damaged_mark(two: Workspace, how: str) -> None:
    """A pin is kept on both tiers: one bad copy loses nothing."""
    two.run("pin", "run/step-1")
    before = listing(two)
    (mark,) = (two.accelerator / ".cairn" / "marks").rglob("*-pin-*.json")
    RECORD_SPOILS[how](mark)
    shutil.rmtree(two.directory / "cairn-state")
    two.call("rebuild")
    assert listing(two) == before
    two.run("release", "run/step-1", code=1)


def test_mark_that_nobody_can_read(two: Workspace) -> None:
    """What it says is unknown: its checkpoint is kept, the others work."""
    two.run("pin", "run/step-1")
    for top in (two.accelerator, two.core):
        (mark,) = (top / ".cairn" / "marks").rglob("*-pin-*.json")
        zero(mark)
    shutil.rmtree(two.directory / "cairn-state")
    answer = two.call("rebuild")
    assert answer.code == 3
    assert mark.name in answer.out + answer.err
    assert listing(two).keys() == {"run/step-1", "run/step-2"}
    two.run("verify", "run/step-2")
    answer = two.call("release", "run/step-1")
    assert answer.code != 0
    assert (two.accelerator / "run" / "step-1").exists()


# --- The case -----------------------------------------------------------------


def test_check_of_an_archive_of_twenty(cairn: Workspace) -> None:
    """B42: three findings with their kinds; without reading, the two that can
    be seen, and the words that content was not read."""
    names = [f"{n:02}.raw" for n in range(19)]
    make(
        cairn,
        "run/step-1",
        {name: noise(5000, seed) for seed, name in enumerate(names)},
    )
    archive(cairn)
    stored = cairn.core / "run" / "step-1"
    flip(stored / "03.raw", 2500)
    status = os.stat(stored / "07.raw")
    cut(stored / "07.raw", 4999)
    os.utime(stored / "07.raw", ns=(status.st_atime_ns, status.st_mtime_ns))
    (stored / "11.raw").unlink()

    arguments = ("verify", "run/step-1", "--tier", "core")
    quick = cairn.json(*arguments, "--quick", code=3)
    outcome = result_of(quick, "run/step-1")
    assert not outcome["content_read"]
    assert kinds(outcome) == {"07.raw": "truncated", "11.raw": "missing"}
    answer = cairn.run(*arguments, "--quick", code=3)
    assert "content not read" in answer.out + answer.err

    outcome = result_of(cairn.json(*arguments, code=3), "run/step-1")
    assert outcome["content_read"]
    assert kinds(outcome) == {
        "03.raw": "corrupt",
        "07.raw": "truncated",
        "11.raw": "missing",
    }
    answer = cairn.run(*arguments, code=3)
    for name in ("03.raw", "07.raw", "11.raw"):
        assert f"run/step-1/{name}" in answer.out + answer.err


def kinds(outcome: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {
        os.path.basename(damage["file"]): damage["kind"]
        for damage in outcome["damages"]
    }


def test_quick_says_that_it_read_nothing(two: Workspace) -> None:
    """B42: also where all is well, as far as it can tell."""
    flip(place(two, "core") / "large.raw", 5)
    answer = two.run("verify", "run/step-2", "--quick")
    assert "content not read" in answer.out
    report = two.json("verify", "run/step-2", "--quick")
    assert [o["content_read"] for o in report["outcomes"]] == [False, False]


def test_scan_names_what_is_damaged(two: Workspace) -> None:
    """`scan` reads what was touched; what it finds has exit code 3."""
    flip(place(two, "accelerator") / "large.raw", 5)
    change = change_of(two.json("scan", code=3), "run/step-2")
    assert change["result"] == "damaged"
    assert "large.raw" in change["message"]
