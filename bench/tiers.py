"""cairn against cp and rsync between two directories, and against find.

Everything is measured side by side in one run: the contenders take turns within
each round, on random data, with the page cache dropped before every reading and
all data on stable storage before a clock is stopped. Prints Markdown tables:
median, lowest and highest of the rounds, with the machine's facts.

    .venv/bin/python bench/tiers.py --cairn build/release/apps/cairn/cairn
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

GIB = 1 << 30


@dataclass
class Contender:
    """One way of doing the job: `prepare` is not timed, `run` is."""

    name: str
    run: Callable[[], None]
    prepare: Callable[[], None] = lambda: None
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


def sh(*command: str | Path) -> None:
    subprocess.run(
        [str(part) for part in command], check=True, stdout=subprocess.DEVNULL
    )


def drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def children_cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


def race(contenders: list[Contender], rounds: int, cold: bool) -> None:
    """Lets the contenders take turns; the order moves on by one each round."""
    for turn in range(rounds):
        shift = turn % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            contender.prepare()
            if cold:
                drop_caches()
            cpu = children_cpu()
            began = time.perf_counter()
            contender.run()
            contender.seconds.append(time.perf_counter() - began)
            contender.cpu_seconds.append(children_cpu() - cpu)


def table(title: str, contenders: list[Contender], size_bytes: int) -> None:
    base = statistics.median(contenders[0].seconds)
    print(f"\n### {title}\n")
    print("| | median | lowest | highest | rate | CPU-s | against the first |")
    print("|---|---|---|---|---|---|---|")
    for one in contenders:
        median = statistics.median(one.seconds)
        rate = f"{size_bytes / median / 1e9:.2f} GB/s" if size_bytes else "-"
        print(
            f"| {one.name} | {median:.2f} s | {min(one.seconds):.2f} s |"
            f" {max(one.seconds):.2f} s | {rate} |"
            f" {statistics.median(one.cpu_seconds):.2f} |"
            f" {median / base:.2f}x |"
        )
    sys.stdout.flush()


def fill(path: Path, size: int) -> None:
    with path.open("wb") as out:
        left = size
        while left > 0:
            step = min(left, 64 << 20)
            out.write(os.urandom(step))
            left -= step


class Store:
    """A cairn store of its own in `root`."""

    def __init__(self, cairn: Path, root: Path) -> None:
        self.cairn = cairn
        self.root = root
        self.acc = root / "acc"
        self.core = root / "core"
        root.mkdir(parents=True)
        self.call(
            "init",
            "--accelerator",
            str(self.acc),
            "--core",
            f"file://{self.core}",
        )

    def call(self, *arguments: str) -> None:
        subprocess.run(
            [str(self.cairn), *arguments, "--quiet"],
            cwd=self.root,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def start_again(self) -> None:
        """Forgets what is archived; the accelerator tier's files stay."""
        shutil.rmtree(self.core)
        shutil.rmtree(self.root / "cairn-state")
        shutil.rmtree(self.acc / ".cairn")
        (self.root / "cairn.toml").unlink()
        self.call(
            "init",
            "--accelerator",
            str(self.acc),
            "--core",
            f"file://{self.core}",
        )
        self.call("scan")


def remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def sync_tree(path: Path) -> None:
    """Everything of the copy on stable storage."""
    sh("sync", "-f", path)


def measure_copies(
    cairn: Path,
    work: Path,
    title: str,
    make: Callable[[Path], int],
    rounds: int,
) -> None:
    store = Store(cairn, work / "store")
    source = store.acc / "run" / "checkpoint-1"
    source.mkdir(parents=True)
    size = make(source)
    (source / "trainer_state.json").write_text('{"global_step": 1}')
    os.sync()
    copy, copied = work / "cp", work / "rsync"

    def by_cp(origin: Path) -> None:
        sh("cp", "-a", origin, copy)
        sync_tree(copy)

    def by_rsync(origin: Path) -> None:
        sh("rsync", "-a", f"{origin}/", f"{copied}/")
        sync_tree(copied)

    race(
        [
            exported := Contender(
                "cairn export",
                lambda: store.call("export", "--all"),
                store.start_again,
            ),
            cp := Contender(
                "cp -a, sync", lambda: by_cp(source), lambda: remove(copy)
            ),
            rsync := Contender(
                "rsync -a, sync",
                lambda: by_rsync(source),
                lambda: remove(copied),
            ),
        ],
        rounds,
        cold=True,
    )
    table(f"Export: {title}", [exported, cp, rsync], size)

    archived = store.core / "run" / "checkpoint-1"
    race(
        [
            restored := Contender(
                "cairn restore",
                lambda: store.call("restore", "run/checkpoint-1"),
                lambda: remove(source),
            ),
            cp := Contender(
                "cp -a, sync", lambda: by_cp(archived), lambda: remove(copy)
            ),
            rsync := Contender(
                "rsync -a, sync",
                lambda: by_rsync(archived),
                lambda: remove(copied),
            ),
        ],
        rounds,
        cold=True,
    )
    table(f"Restore: {title}", [restored, cp, rsync], size)
    remove(work)


def measure_scan(cairn: Path, work: Path, rounds: int) -> None:
    """100,000 files in 1,000 checkpoints, all known, nothing changed."""
    store = Store(cairn, work / "store")
    for run in range(10):
        for step in range(100):
            directory = store.acc / f"run{run}" / f"checkpoint-{step}"
            directory.mkdir(parents=True)
            for index in range(99):
                (directory / f"model-{index:05d}.bin").write_text("{}")
            (directory / "trainer_state.json").write_text(
                f'{{"global_step": {step}}}'
            )
    began = time.perf_counter()
    store.call("scan")
    first = time.perf_counter() - began
    find = ["find", str(store.acc), "-printf", "%s %T@ %C@ %i\n"]
    contenders = [
        Contender("cairn scan, nothing changed", lambda: store.call("scan")),
        Contender("find -printf '%s %T@ %C@ %i'", lambda: sh(*find)),
    ]
    for contender in contenders:  # Both start with warm memory.
        contender.run()
    race(contenders, rounds, cold=False)
    table(
        "Scan of 100,000 files in 1,000 checkpoints, names cached",
        contenders,
        0,
    )
    print(
        "\nThe first scan, which commits the 1,000 checkpoints durably:"
        f" {first:.1f} s."
    )
    remove(work)


def facts(work: Path) -> None:
    cpu = next(
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", str(work)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    print(
        f"Machine: {os.cpu_count()} CPUs ({cpu}), {memory:.0f} GiB of memory,"
        f" Linux {platform.release()}, {kind} on a virtual disk;"
        f" load {os.getloadavg()[0]:.1f} at the start."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cairn", type=Path, required=True)
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir())
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["large", "small", "scan"])
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/tiers.py: dropping the page cache takes root")
    cairn = options.cairn.resolve()
    with tempfile.TemporaryDirectory(
        dir=options.work, prefix="cairn-bench-"
    ) as scratch:
        work = Path(scratch)
        facts(work)

        def large(directory: Path) -> int:
            for index in range(2):
                fill(directory / f"model-{index}.bin", GIB)
            return 2 * GIB

        def small(directory: Path) -> int:
            for index in range(20_000):
                (directory / f"model-{index:05d}.bin").write_bytes(
                    os.urandom(10_240)
                )
            return 20_000 * 10_240

        if options.only in (None, "large"):
            measure_copies(
                cairn,
                work / "large",
                "two files of 1 GiB",
                large,
                options.rounds,
            )
        if options.only in (None, "small"):
            measure_copies(
                cairn,
                work / "small",
                "20,000 files of 10 KiB",
                small,
                options.rounds,
            )
        if options.only in (None, "scan"):
            measure_scan(cairn, work / "scan", 2 * options.rounds + 1)


if __name__ == "__main__":
    main()
