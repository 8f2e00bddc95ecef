#!/usr/bin/env python3
"""Runs clang-tidy over a build's sources, as many at once as there are CPUs,
leaving out those that were clean before and have not changed since.

  clang_tidy.py CLANG_TIDY BUILD_DIR

A source is unchanged when it, every header of ours that it includes (ninja
knows them from the build, which therefore comes first), .clang-tidy and the
tool's version are what they were.
"""

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def output_of(*command: str) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout


def dependencies(build: Path) -> dict[Path, list[Path]]:
    """Our sources, and for each the files of ours that it was built from."""
    table: dict[Path, list[Path]] = {}
    for block in output_of("ninja", "-C", str(build), "-t", "deps").split(
        "\n\n"
    ):
        names = [line.strip() for line in block.splitlines()[1:]]
        paths = [(build / name).resolve() for name in names]
        ours = [
            p
            for p in paths
            if p.is_relative_to(ROOT) and not p.is_relative_to(build)
        ]
        if ours and ours[0].suffix == ".cc":
            table[ours[0]] = sorted(ours)
    return table


def digest(common: bytes, files: list[Path]) -> str:
    total = hashlib.sha256(common)
    for file in files:
        content = file.read_bytes() if file.exists() else b""
        total.update(str(file.relative_to(ROOT)).encode() + b"\0")
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()


def main() -> int:
    tool, build = sys.argv[1], Path(sys.argv[2]).resolve()
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    common = (ROOT / ".clang-tidy").read_bytes()
    common += output_of(tool, "--version").encode()
    known = dependencies(build)
    commands = json.loads((build / "compile_commands.json").read_text())
    files = sorted({Path(c["file"]) for c in commands})
    files = [f for f in files if not f.is_relative_to(build)]
    unbuilt = [f for f in files if f not in known]
    if unbuilt:
        print(f"clang-tidy: build first; {unbuilt[0].name} is not built")
        return 1

    def look_at(file: Path) -> tuple[Path, bool, str]:
        stamp = stamps / digest(common, known[file])
        if stamp.exists():
            return file, True, ""
        run = subprocess.run(
            [tool, "--quiet", "-p", str(build), str(file)],
            capture_output=True,
            text=True,
        )
        if run.returncode == 0:
            stamp.touch()
        return file, run.returncode == 0, run.stdout + run.stderr

    bad = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, clean, said in pool.map(look_at, files):
            if not clean:
                bad += 1
                print(f"{file.relative_to(ROOT)}:\n{said}", flush=True)
    print(f"clang-tidy: {len(files)} files, {bad} with findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
