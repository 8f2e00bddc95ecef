"""Which checkpoint is the newest good one, and what is none at all.

T11: B67; T12: B70, B71, B74; T13: B75, B77, B80. Where these speak of
retention, that waits for the verb; here it is shown that the order it goes by
is right, and that release, which frees all but the newest, goes by it.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from cases import (
    MARKER,
    add_rule,
    archive,
    cut,
    latest,
    listing,
    make,
    noise,
    result_of,
    zero,
)
from workspace import Workspace, tree_of

POINTER_RULE = """
[[framework]]
name = "ours"
directory = 'step-(?P<step>\\d+)'
complete = ["DONE"]
pointer = "latest"
pointer_content = "{name}"
"""


def safetensors(size: int) -> bytes:
    header = json.dumps(
        {"a": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    ).encode()
    return len(header).to_bytes(8, "little") + header + noise(size)


# --- Order --------------------------------------------------------------------


@pytest.mark.parametrize("one_scan", [True, False])
def test_steps_are_numbers(cairn: Workspace, one_scan: bool) -> None:
    """B70: 10000 comes after 9900, and 1000 after 900."""
    for run, steps in {
        "large": range(9000, 10001, 100),
        "small": (900, 1000),
    }.items():
        for step in steps:
            make(cairn, f"{run}/checkpoint-{step}")
            if not one_scan:
                cairn.run("scan")
    archive(cairn)
    assert latest(cairn, "large") == "checkpoint-10000"
    assert latest(cairn, "small") == "checkpoint-1000"
    order = sorted(
        (c["sequence"], c["step"])
        for c in listing(cairn).values()
        if c["run"] == "large"
    )
    assert [step for _, step in order] == list(range(9000, 10001, 100))
    report = cairn.json("release", "--all")
    kept = {o["path"] for o in report["outcomes"] if o["result"] != "done"}
    assert kept == {"large/checkpoint-10000", "small/checkpoint-1000"}
    assert latest(cairn, "large") == "checkpoint-10000"


def test_the_one_just_written_is_never_released(cairn: Workspace) -> None:
    """B71: saves 0 to 12, with as much released as may be after each."""
    for step in range(13):
        make(cairn, f"run/checkpoint_{step}")
        archive(cairn)
        cairn.run("release", "--all")
        assert latest(cairn, "run") == f"checkpoint_{step}"
        assert (cairn.accelerator / "run" / f"checkpoint_{step}").exists()
    left = sorted(os.listdir(cairn.accelerator / "run"))
    assert left == ["checkpoint_12"]
    assert len(listing(cairn)) == 13
    cairn.run("verify", "--all")


def test_names_with_two_numbers(cairn: Workspace) -> None:
    """B74: the step decides, not the name."""
    for name in (
        "epoch=9-step=900",
        "epoch=10-step=1000",
        "epoch=10-step=950",
    ):
        make(cairn, f"run/{name}")
    archive(cairn)
    assert latest(cairn, "run") == "epoch=10-step=1000"
    found = listing(cairn)["run/epoch=10-step=950"]
    assert (found["epoch"], found["step"]) == (10, 950)
    order = sorted(listing(cairn).values(), key=lambda c: c["sequence"])
    assert [c["step"] for c in order] == [900, 950, 1000]


def test_name_without_a_number(cairn: Workspace) -> None:
    """B74: the step stands in the manifest; the name need not say it."""
    folder = make(cairn, "run/epoch=10-step=1000")
    make(cairn, "run/epoch=10-step=950")
    archive(cairn)
    folder.rename(folder.with_name("best"))
    cairn.run("scan")
    cairn.run("adopt", "run/best", "--step", "1000")
    assert listing(cairn)["run/best"]["step"] == 1000
    assert latest(cairn, "run") == "best"
    shutil.rmtree(cairn.directory / "cairn-state")
    cairn.run("rebuild")
    assert listing(cairn)["run/best"]["step"] == 1000
    assert latest(cairn, "run") == "best"


def test_committed_later_with_a_lower_step(cairn: Workspace) -> None:
    """B74: newest means committed last; a step that disagrees is named."""
    make(cairn, "run/step-1000")
    cairn.run("scan")
    make(cairn, "run/step-950")  # The run was set back.
    cairn.run("scan")
    answer = cairn.run("latest", "run")
    assert answer.out == f"{cairn.accelerator / 'run' / 'step-950'}\n"
    assert "step-1000" in answer.err
    # Times decide nothing.
    os.utime(cairn.accelerator / "run" / "step-1000" / MARKER, (2e9, 2e9))
    cairn.run("scan")
    assert latest(cairn, "run") == "step-950"


# --- What is none -------------------------------------------------------------


def test_copied_without_its_marker(cairn: Workspace) -> None:
    """B67: nothing is deleted; it is unknown, and can be adopted."""
    folder = make(cairn, "run/step-100", {"m.safetensors": safetensors(5000)})
    copy = cairn.accelerator / "copied" / "step-100"
    shutil.copytree(folder, copy)
    (copy / MARKER).unlink()
    age(copy)
    before = tree_of(copy)
    scan = cairn.json("scan")
    assert [c["path"] for c in scan["committed"]] == ["run/step-100"]
    (candidate,) = scan["candidates"]
    assert candidate["path"] == "copied/step-100"
    assert candidate["verdict"] == "unknown"
    assert "no commit record" in candidate["reason"]
    assert "cairn adopt" in candidate["reason"]
    cairn.run("sweep")
    cairn.run("export", "--all")
    cairn.run("release", "--all")
    assert tree_of(copy) == before
    assert "copied/step-100" not in listing(cairn)
    cairn.run("latest", "copied", code=4)

    # Adopting verifies first.
    cut(copy / "m.safetensors", 3000)
    answer = cairn.run("adopt", "copied/step-100", code=3)
    assert "m.safetensors" in answer.err
    assert "copied/step-100" not in listing(cairn)
    shutil.copy2(folder / "m.safetensors", copy / "m.safetensors")
    cairn.run("adopt", "copied/step-100")
    assert latest(cairn, "copied") == "step-100"
    cairn.run("export", "--all")
    cairn.run("verify", "copied/step-100")


def age(folder: pathlib.Path) -> None:
    for top, folders, files in os.walk(folder):
        for name in [".", *folders, *files]:
            os.utime(os.path.join(top, name), (1_600_000_000, 1_600_000_000))


def test_half_written(cairn: Workspace) -> None:
    """B75: the one before it, and one line that names it."""
    make(cairn, "run/step-200", {"m.safetensors": safetensors(5000)})
    half = make(
        cairn,
        "run/step-300",
        {"m.safetensors": safetensors(5000), "n.safetensors": b""},
        marker=False,
    )
    cut(half / "m.safetensors", 2500)
    cairn.run("scan")
    answer = cairn.run("latest", "run")
    assert answer.out == f"{cairn.accelerator / 'run' / 'step-200'}\n"
    assert len(re.findall("step-300", answer.err)) == 1
    report = cairn.json("latest", "run")
    assert [p["path"] for p in report["passed_over"]] == ["run/step-300"]
    # Every rank gets the same answer.
    ranks = [
        subprocess.Popen(
            [cairn.program, "latest", "run", "--restore"],
            cwd=cairn.directory,
            env=cairn.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    answers = {rank.communicate()[0] for rank in ranks}
    assert answers == {answer.out.encode()}
    assert [rank.returncode for rank in ranks] == [0, 0, 0, 0]


def test_staging_and_junk(cairn: Workspace) -> None:
    """B77: temporary names with all files in them, and a file for a folder."""
    make(cairn, "run/step-300")
    temporary = ("step-400.tmp", "tmp-step-410", ".tmp-step-420")
    for name in temporary:
        make(cairn, f"run/{name}")
    (cairn.accelerator / "run" / "step-500").write_text("junk")
    (cairn.accelerator / "run" / "step-600").mkdir()
    scan = cairn.json("scan")
    assert [c["path"] for c in scan["committed"]] == ["run/step-300"]
    candidates = {c["path"]: c for c in scan["candidates"]}
    assert "run/step-500" not in candidates
    for name in temporary:
        candidate = candidates[f"run/{name}"]
        assert candidate["verdict"] == "writing"
        assert "stale staging" in candidate["reason"]
    assert latest(cairn, "run") == "step-300"
    cairn.run("export", "--all")
    assert listing(cairn).keys() == {"run/step-300"}
    assert not list((cairn.core / "run").glob("*[45]*"))


# --- Pointers, state, and the order of a commit -------------------------------


@pytest.mark.parametrize("how", ["empty", "zeros", "half", "missing", "wrong"])
def test_pointer_file_lost_its_content(cairn: Workspace, how: str) -> None:
    """B80: cairn never believed it, and writes it anew."""
    add_rule(cairn, POINTER_RULE)
    make(cairn, "run/step-9")
    make(cairn, "run/step-10")
    pointer = cairn.accelerator / "run" / "latest"
    pointer.write_text("step-10")
    archive(cairn)
    before = cairn.run("latest", "run").out
    if how == "empty":
        cut(pointer, 0)
    elif how == "zeros":
        zero(pointer)
    elif how == "half":
        cut(pointer, 4)
    elif how == "missing":
        pointer.unlink()
    else:
        pointer.write_text("step-9")
    assert cairn.run("latest", "run").out == before
    assert cairn.run("latest", "run", "--restore").out == before
    assert pointer.read_text() == "step-10"
    shutil.rmtree(cairn.directory / "cairn-state")
    assert cairn.run("latest", "run").out == before


def test_order_of_a_commit(cairn: Workspace) -> None:
    """B80: data, then the manifest: flush of the file, rename, flush of the
    directory."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    make(cairn, "run/step-1")
    trace = cairn.directory / "trace"
    done = subprocess.run(
        [
            *("strace", "-f", "-y", "-o", str(trace), "-e"),
            "trace=fsync,fdatasync,syncfs,rename,renameat,renameat2,link,linkat",
            *(cairn.program, "commit", "run/step-1"),
        ],
        cwd=cairn.directory,
        env=cairn.environment,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    calls = trace.read_text().splitlines()

    def first(pattern: str, after: int = -1) -> int:
        for number, line in enumerate(calls):
            if number > after and re.search(pattern, line):
                return number
        pytest.fail(f"no {pattern} after line {after} of\n" + "\n".join(calls))

    folder = re.escape(str(cairn.accelerator / ".cairn" / "manifests"))
    data = first(rf"(syncfs|fsync)\(\d+<{re.escape(str(cairn.accelerator))}")
    flush = first(rf"(fsync|fdatasync)\(\d+<{folder}/run/step-1/\.tmp-", data)
    rename = first(r"(rename|link)\w*\(.*\.jsonl\.zst", flush)
    first(rf"fsync\(\d+<{folder}/run/step-1>", rename)
    for line in calls:
        if re.search("sync|rename|link", line):
            assert "= -1" not in line or "EINVAL" in line, line


def test_result_of_nothing(cairn: Workspace) -> None:
    """An empty run has no newest checkpoint, and no path is printed."""
    (cairn.accelerator / "empty").mkdir()
    cairn.run("scan")
    for run in ("empty", "nowhere"):
        answer = cairn.call("latest", run)
        assert answer.code in (1, 4)
        assert answer.out == ""
        assert run in answer.err
    report = cairn.json("export", "--all")
    assert report["outcomes"] == []
    make(cairn, "run/step-1")
    archive(cairn)
    report = cairn.json("export", "run/step-1", code=4)
    assert result_of(report, "run/step-1")["result"] == "nothing_to_do"
