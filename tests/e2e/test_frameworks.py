"""Every layout of a checkpoint, through its whole life.

All layouts of layouts.py lie in one accelerator tier, written by the real
libraries where they are installed. It is scanned, exported, wiped, and each run
is brought back with `cairn latest RUN --restore`: the same names, bytes, modes,
times and links, readable by the stock library, with the framework's own pointer
file written anew. What is interrupted or damaged lies beside them and must not
count.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from layouts import BROKEN, LAYOUTS, Broken, Layout, age, layout_of
from workspace import Answer, Tree, Workspace, differences, node_of, tree_of


def snapshot(workspace: Workspace, layout: Layout) -> Tree:
    run = workspace.accelerator / layout.run
    if not layout.files:
        return tree_of(run / layout.name)
    names = [os.fsencode(name) for name in layout.files]
    folder = os.fsencode(run)
    return {
        name: node_of(os.path.join(folder, name))
        for name in names
        if os.path.lexists(os.path.join(folder, name))
    }


@dataclasses.dataclass
class Life:
    """What was done once, for all the tests to look at."""

    workspace: Workspace
    scan: dict[str, Any]
    before: dict[str, Tree]  # By run.
    latest: dict[str, Answer]  # Of `latest RUN --restore`, after the wipe.
    broken_latest: dict[str, Answer]  # Of `latest RUN`, before it.

    def committed(self, path: str) -> dict[str, Any] | None:
        for found in self.scan["committed"]:
            if found["path"] == path:
                return dict(found)
        return None


@pytest.fixture(scope="module")
def life(
    cairn_program: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Life]:
    directory = tmp_path_factory.mktemp("frameworks")
    workspace = Workspace(cairn_program, directory)
    workspace.init()
    layouts = [layout for layout in LAYOUTS if not layout.missing()]
    for layout in layouts:
        build(layout, workspace.accelerator / layout.run)
    for broken in BROKEN:
        if not layout_of(broken.like).missing():
            run = workspace.accelerator / broken.run
            build(layout_of(broken.like), run)
            broken.spoil(run)
            age(run)

    before = {layout.run: snapshot(workspace, layout) for layout in layouts}
    scan = workspace.json("scan")
    workspace.run("export", "--all")
    broken_latest = {b.run: workspace.call("latest", b.run) for b in BROKEN}
    workspace.wipe()
    workspace.init("--replace-accelerator")
    latest = {
        layout.run: workspace.call("latest", layout.run, "--restore")
        for layout in layouts
    }
    yield Life(workspace, scan, before, latest, broken_latest)
    shutil.rmtree(os.fsencode(directory))


def build(layout: Layout, run: pathlib.Path) -> None:
    run.mkdir(parents=True, exist_ok=True)
    layout.build(run)


@pytest.fixture(params=LAYOUTS, ids=lambda layout: layout.run)
def layout(request: pytest.FixtureRequest) -> Layout:
    found: Layout = request.param
    if found.missing():
        pytest.skip(f"{found.missing()} is not installed")
    return found


@pytest.fixture(params=BROKEN, ids=lambda broken: broken.run)
def broken(request: pytest.FixtureRequest) -> Broken:
    found: Broken = request.param
    missing = layout_of(found.like).missing()
    if missing:
        pytest.skip(f"{missing} is not installed")
    return found


def test_scan_takes_it(life: Life, layout: Layout) -> None:
    found = life.committed(layout.path)
    assert found, [
        c for c in life.scan["candidates"] if layout.run in c["path"]
    ]
    assert found["framework"] == layout.framework
    assert found["run"] == layout.run
    assert found["name"] == layout.name
    if layout.step is not None:
        assert found["step"] == layout.step
    if layout.epoch is not None:
        assert found["epoch"] == layout.epoch


def test_nothing_else_was_taken(life: Life) -> None:
    wanted = {layout.path for layout in LAYOUTS}
    wanted.add("deepspeed/global_step900")
    assert {found["path"] for found in life.scan["committed"]} <= wanted


def test_latest_brings_it_back(life: Life, layout: Layout) -> None:
    answer = life.latest[layout.run]
    assert answer.code == 0, answer
    location = str(life.workspace.accelerator / layout.path)
    assert answer.out == location + "\n"
    restored = snapshot(life.workspace, layout)
    assert differences(life.before[layout.run], restored) == []


def test_stock_library_reads_it(life: Life, layout: Layout) -> None:
    if not layout.load:
        pytest.skip(f"nothing here reads {layout.framework}")
    layout.load(life.workspace.accelerator / layout.path)


def test_pointer_files_are_written_anew(life: Life, layout: Layout) -> None:
    if not layout.pointers:
        pytest.skip(f"{layout.framework} has none")
    run = life.workspace.accelerator / layout.run
    for name, wanted in layout.pointers:
        text = (run / name).read_text()
        # DeepSpeed and Megatron take the whole file; a proto has more to say.
        assert text.strip() == wanted or wanted in text.splitlines()


def test_pointer_files_are_not_exported(life: Life) -> None:
    found = {os.path.basename(path) for path in walk(life.workspace.core)}
    assert not found & {"latest", "latest_checkpointed_iteration.txt"}


def walk(folder: pathlib.Path) -> Iterator[str]:
    for top, _, files in os.walk(folder):
        for name in files:
            yield os.path.join(top, name)


def test_broken_is_refused_with_a_reason(life: Life, broken: Broken) -> None:
    inside = f"{broken.run}/"
    taken = [c for c in life.scan["committed"] if c["path"].startswith(inside)]
    assert taken == []
    candidates = [
        c for c in life.scan["candidates"] if c["path"].startswith(inside)
    ]
    # What only has a name that a save has until it is done may be passed over.
    if broken.run != "orbax-tmp":
        assert f"{inside}{broken.name}" in [c["path"] for c in candidates]
    for candidate in candidates:
        assert candidate["verdict"] in ("writing", "damaged", "unknown")
        assert candidate["reason"]


def test_broken_is_never_the_latest(life: Life, broken: Broken) -> None:
    answer = life.broken_latest[broken.run]
    assert answer.code != 0
    assert answer.out == ""


def test_broken_is_not_exported(life: Life, broken: Broken) -> None:
    folder = life.workspace.core / broken.run
    assert not folder.exists() or not list(walk(folder))


def test_users_own_rule(cairn: Workspace) -> None:
    with open(cairn.config, "a") as config:
        config.write(
            '\n[[framework]]\nname = "ours"\n'
            "directory = 'ckpt_(?P<step>\\d+)'\n"
            'complete = ["READY"]\n'
        )
    for step, ready in ((9, True), (10, True), (11, False)):
        folder = cairn.accelerator / "mine" / f"ckpt_{step}"
        folder.mkdir(parents=True)
        (folder / "weights.raw").write_bytes(os.urandom(1000))
        if ready:
            (folder / "READY").touch()
    scan = cairn.json("scan")
    assert [
        (c["path"], c["framework"], c["step"]) for c in scan["committed"]
    ] == [("mine/ckpt_9", "ours", 9), ("mine/ckpt_10", "ours", 10)]
    assert [c["path"] for c in scan["candidates"]] == ["mine/ckpt_11"]
    newest = cairn.run("latest", "mine").out
    assert newest == f"{cairn.accelerator / 'mine' / 'ckpt_10'}\n"
