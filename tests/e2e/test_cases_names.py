"""Names: odd characters, Unicode, long ones, clashes (T01).

Of T01, the part of B07 that is about URLs waits for an object server: which
part of a URL a name is encoded for can't be seen in a directory. B06's "import"
waits for the verb; that the clash itself loses nothing is shown here.
"""

from __future__ import annotations

import os
import shutil

import pytest
from cases import (
    assert_same,
    bytes_moved,
    make,
    noise,
    objects,
    result_of,
    round_trip,
    write_files,
)
from workspace import Workspace, tree_of


def test_percent_signs(cairn: Workspace) -> None:
    """B01: nothing decodes a name."""
    names = ["a%22", "b%2F", "c%00", "d%zz", "e% f"]
    folder = cairn.accelerator / "run" / "step-1"
    write_files(folder, {name: name.encode() for name in names})
    cairn.run("adopt", "run/step-1")
    before = tree_of(folder)
    plan = cairn.json("export", "--all", "--dry-run")
    assert result_of(plan, "run/step-1")["files"] == 5
    assert objects(cairn) == {}
    round_trip(cairn, "run/step-1", folder)
    assert sorted(os.listdir(folder)) == sorted(names)
    assert_same(before, folder)


def test_composed_and_decomposed(cairn: Workspace) -> None:
    """B04: the two byte forms of an accented name stay two files."""
    names = {"\u00e9.raw": b"one", "e\u0301.raw": b"two"}
    folder = make(cairn, "run/step-1", names)
    cairn.run("scan")
    round_trip(cairn, "run/step-1", folder)
    for name, content in names.items():
        assert (folder / name).read_bytes() == content
    assert bytes_moved(cairn.json("export", "--all")) == 0
    again = cairn.json("export", "run/step-1", code=4)
    assert bytes_moved(again) == 0


def test_checkpoints_that_differ_in_their_form_only(cairn: Workspace) -> None:
    """B04, of the names of checkpoints."""
    composed = make(cairn, "m\u00e9/step-1", {"w.raw": b"one"})
    decomposed = make(cairn, "me\u0301/step-1", {"w.raw": b"two"})
    assert len(cairn.json("scan")["committed"]) == 2
    cairn.run("export", "--all")
    cairn.wipe()
    cairn.init("--replace-accelerator")
    cairn.run("restore", "m\u00e9/step-1")
    assert (composed / "w.raw").read_bytes() == b"one"
    assert not decomposed.exists()
    cairn.run("restore", "me\u0301/step-1")
    assert (decomposed / "w.raw").read_bytes() == b"two"


def test_foreign_object_where_a_directory_is_needed(cairn: Workspace) -> None:
    """B06: an object `run` and the checkpoint `run/step-1`."""
    (cairn.core / "run").write_bytes(b"0123456789")
    content = noise(1 << 20)
    folder = make(cairn, "run/step-1", {"w.raw": content})
    other = make(cairn, "other/step-1", {"x": b"12345"})
    cairn.run("scan")
    round_trip(cairn, "run/step-1", folder)
    round_trip(cairn, "other/step-1", other)
    assert (cairn.core / "run").read_bytes() == b"0123456789"
    assert (folder / "w.raw").read_bytes() == content


def test_file_that_became_a_directory(cairn: Workspace) -> None:
    """B06: what was a file checkpoint's name is a run's later."""
    file = cairn.accelerator / "run" / "model-1.ckpt"
    write_files(file.parent, {"model-1.ckpt": b"not a zip"})
    cairn.run("adopt", "--force", "run/model-1.ckpt")
    cairn.run("export", "run/model-1.ckpt")
    file.unlink()
    folder = make(cairn, "run/model-1.ckpt/step-2", {"w.raw": b"two"})
    cairn.run("scan")
    before = tree_of(folder)
    cairn.run("export", "--all")
    # Where the file was, the directory is: restoring must not take it away.
    answer = cairn.call("restore", "run/model-1.ckpt")
    assert answer.code != 0
    assert "run/model-1.ckpt" in answer.err
    assert_same(before, folder)
    shutil.rmtree(folder.parent)
    cairn.run("restore", "run/model-1.ckpt")
    assert file.read_bytes() == b"not a zip"
    cairn.run("scan")
    cairn.run("verify", "--all")


def test_directory_that_became_a_file(cairn: Workspace) -> None:
    """B06: the other way round, on the accelerator tier."""
    folder = make(cairn, "run/step-1", {"w.raw": b"one"})
    before = tree_of(folder)
    make(cairn, "run/step-2")
    cairn.run("scan")
    cairn.run("export", "--all")
    shutil.rmtree(folder)
    folder.write_bytes(b"something else")
    cairn.run("scan")
    cairn.run("export", "--all")
    answer = cairn.call("restore", "run/step-1")
    assert answer.code != 0 and "run/step-1" in answer.err
    assert folder.read_bytes() == b"something else"
    folder.unlink()
    cairn.run("restore", "run/step-1")
    assert_same(before, folder)


def test_characters_that_urls_use(cairn: Workspace) -> None:
    """B07: listing and deleting by prefix take exactly what is below it."""
    run = "a&b #1?/x=1+2 é@$"
    near = "a&b #1?/x=1+2 é@$2"
    files = {
        "w#1?.raw": b"one",
        "sub &=+/y z@$.raw": b"two",
        "é/ü.raw": b"three",
    }
    folder = make(cairn, f"{run}/step-1", files)
    make(cairn, f"{near}/step-1", files)
    cairn.run("scan")
    cairn.run("export", "--all")
    listed = cairn.json("ls", run)["checkpoints"]
    assert [c["path"] for c in listed] == [f"{run}/step-1"]
    before = tree_of(folder)
    shutil.rmtree(folder)
    cairn.run("restore", f"{run}/step-1")
    assert_same(before, folder)
    cairn.run("remove", "--tier", "core", f"{run}/step-1")
    left = {key for key in objects(cairn) if not key.startswith(f"{near}/")}
    assert left == set()
    assert len(objects(cairn)) == 4
    cairn.run("verify", f"{near}/step-1")


ODD = [
    b"line\nfeed",
    b"tab\there",
    b"\x01control",
    b"\xff\xfe not utf-8",
    b"caf\xe9",  # Latin-1.
    "right\u202eleft".encode(),
    "emoji \U0001f600".encode(),
    b"back\\slash",
    b"quote\"'`",
    b"trailing dot.",
    b"trailing space ",
    b" leading space",
    b"...",
    b"-rf",
    b"~",
    b"*?[a]",
    b"$HOME",
    b"CON",
    b"a:b",
    b".hidden",
    b"x" * 255,
    b"\xc3\xa9" * 127,
]


def test_every_odd_name(cairn: Workspace) -> None:
    """T01: as a file, as a directory, and as the name of a run."""
    files = {}
    for number, name in enumerate(ODD):
        files[b"f/" + name] = b"%d" % number
        files[b"d/" + name + b"/inner"] = b"%d" % number
    folder = make(cairn, "run/step-1", files)
    visible = [name for name in ODD if not name.startswith(b".")]
    for number, name in enumerate(visible):
        top = os.path.join(os.fsencode(cairn.accelerator), b"runs", name)
        os.makedirs(top + b"/step-1")
        with open(top + b"/step-1/w.raw", "wb") as file:
            file.write(b"%d" % number)
        with open(top + b"/step-1/DONE", "wb"):
            pass
    found = cairn.json("scan")["committed"]
    assert len(found) == len(visible) + 1
    runs = cairn.accelerator / "runs"
    before, before_runs = tree_of(folder), tree_of(runs)
    cairn.run("export", "--all")
    cairn.run("verify", "--all")
    for checkpoint in found:
        # What is shown can be typed.
        shown = cairn.json("show", checkpoint["path"])["checkpoint"]
        assert shown["path"] == checkpoint["path"]
    cairn.wipe()
    cairn.init("--replace-accelerator")
    for checkpoint in found:
        cairn.run("restore", checkpoint["path"])
    assert_same(before, folder)
    restored = tree_of(runs)
    for name, node in before_runs.items():
        if node.kind == "file":
            assert restored[name].content == node.content
    assert restored.keys() == before_runs.keys()


def test_path_longer_than_a_key(cairn: Workspace) -> None:
    """T01: what no object store would take as a key comes back all the same."""
    deep = "/".join(letter * 250 for letter in "abcde")
    files = {
        f"{deep}/w.raw": b"deep",
        f"{deep}/large.raw": noise((8 << 20) + 1),
    }
    folder = make(cairn, "run/step-1", files)
    cairn.run("scan")
    round_trip(cairn, "run/step-1", folder)


@pytest.mark.parametrize(
    "path", ["../outside", "/absolute/x", "run/../../x", ".cairn/x", "run//x"]
)
def test_names_that_lead_elsewhere(cairn: Workspace, path: str) -> None:
    """T01: a reserved name, or one that leads out of the tier, is refused."""
    source = cairn.directory / "source"
    write_files(source, {"w.raw": b"x"})
    before = tree_of(cairn.directory)
    answer = cairn.call("save", path, "--from", str(source))
    if path == "run//x" and answer.code == 0:
        return  # One name, written in another way.
    assert answer.code in (1, 2), answer
    assert answer.err
    after = tree_of(cairn.directory)
    new = after.keys() - before.keys() - {b"acc/.cairn/staging"}
    assert {
        name for name in new if not name.startswith(b"cairn-state")
    } == set()
