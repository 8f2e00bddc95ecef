"""The cairn program as a user runs it, in a directory of its own.

w = Workspace(program, directory)
w.init()
w.run("scan")                      # exit status 0, or the test fails
w.run("latest", "none", code=4)
w.json("ls")                       # what --json prints, parsed
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import stat
import subprocess
from typing import Any

SECONDS_MAX = 300.0


@dataclasses.dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@dataclasses.dataclass(frozen=True)
class Node:
    """All that a restore has to bring back of one name."""

    kind: str  # "file", "directory", "symlink", "other".
    mode: int
    mtime_ns: int
    content: bytes  # Of a file; a symlink's target.


Tree = dict[bytes, Node]


def node_of(path: bytes) -> Node:
    status = os.lstat(path)
    kind, content, mode = "other", b"", stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        kind = "file"
        with open(path, "rb") as file:
            content = file.read()
    elif stat.S_ISDIR(status.st_mode):
        kind = "directory"
    elif stat.S_ISLNK(status.st_mode):
        kind, content = "symlink", os.readlink(path)
    return Node(kind, mode, status.st_mtime_ns, content)


def tree_of(path: pathlib.Path) -> Tree:
    """Every name at and below `path`, by its bytes; "" is `path` itself."""
    top = os.fsencode(path)
    tree = {b"": node_of(top)}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            full = os.path.join(folder, name)
            tree[os.path.relpath(full, top)] = node_of(full)
    return tree


def differences(wanted: Tree, found: Tree) -> list[str]:
    """One line for each name that is not as it should be."""
    lines = []
    for name in sorted(wanted.keys() | found.keys()):
        a, b = wanted.get(name), found.get(name)
        if a is None or b is None:
            lines.append(f"{name!r}: {'too much' if a is None else 'missing'}")
            continue
        for field in dataclasses.fields(Node):
            one, other = getattr(a, field.name), getattr(b, field.name)
            if one != other:
                was = f"{one!r} -> {other!r}"
                if field.name == "content" and len(was) > 200:
                    was = f"{len(one)} -> {len(other)} bytes, not equal"
                lines.append(f"{name!r}: {field.name} {was}")
    return lines


class Workspace:
    """One at a time in a thread; `directory` holds acc/, core/, cairn.toml."""

    def __init__(self, program: str, directory: pathlib.Path) -> None:
        self.program = program
        self.directory = directory
        self.accelerator = directory / "acc"
        self.core = directory / "core"
        self.config = directory / "cairn.toml"
        self.accelerator.mkdir(parents=True, exist_ok=True)
        self.core.mkdir(exist_ok=True)
        # Of the environment, only what cannot be meant for another store.
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("CAIRN_")
        }

    def call(self, *arguments: str) -> Answer:
        """Runs `cairn ARGUMENTS`, however it ends."""
        done = subprocess.run(
            [self.program, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS_MAX,
        )
        return Answer(
            done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr)
        )

    def run(self, *arguments: str, code: int = 0) -> Answer:
        """Runs `cairn ARGUMENTS`, which has to end with `code`."""
        answer = self.call(*arguments)
        assert answer.code == code, (
            f"cairn {shlex.join(arguments)} ended with {answer.code}, not"
            f" {code}\n--- stdout\n{answer.out}\n--- stderr\n{answer.err}"
        )
        return answer

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code).out)

    def init(self, *more: str) -> Answer:
        core = f"file://{self.core}"
        return self.run(
            *("init", "--accelerator", "./acc", "--core", core, *more)
        )

    def wipe(self) -> None:
        """A new, empty disk where the accelerator tier was."""
        shutil.rmtree(os.fsencode(self.accelerator))
        self.accelerator.mkdir()
