"""Runs cairn in a workspace: to its end, to a kill point, or for a while."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time
from typing import Any

SECONDS_MAX = 300.0  # A verb that takes longer hangs.
# kill -9 needs a moment to be more than nothing.
_DELAY_MIN_S = 0.001


@dataclasses.dataclass(frozen=True)
class Kill:
    """At the n-th passage of a point ("export.after_part:2"), or after a part
    of the time that the verb takes ("0.53")."""

    text: str

    @property
    def point(self) -> str:
        return "" if self.fraction is not None else self.text.partition(":")[0]

    @property
    def fraction(self) -> float | None:
        return float(self.text) if re.match(r"[0-9.]+$", self.text) else None


@dataclasses.dataclass(frozen=True)
class Answer:
    argv: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def json(self) -> Any:
        return json.loads(self.out)

    def __str__(self) -> str:
        return (
            f"cairn {shlex.join(self.argv)} ended with {self.code}\n"
            f"  stdout: {self.out.strip()[-1500:]}\n"
            f"  stderr: {self.err.strip()[-1500:]}"
        )


class Hangs(Exception):
    """A verb did not come to an end."""


class Program:
    """One thread at a time. `folder` is where its commands run."""

    def __init__(self, path: str, folder: pathlib.Path) -> None:
        self._path = path
        self._folder = folder
        # Of the environment, only what cannot be meant for another store.
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("CAIRN_")
        }

    def run(
        self,
        *argv: str,
        kill: Kill | None = None,
        takes_s: float = 0.0,
        environment: dict[str, str] | None = None,
    ) -> Answer:
        """`takes_s` is what a kill at a fraction is a fraction of."""
        extra = dict(environment or {})
        if kill is not None and kill.point:
            extra["CAIRN_KILL_AT"] = kill.text
        began = time.monotonic()
        process = subprocess.Popen(
            [self._path, *argv],
            cwd=self._folder,
            env={**self._environment, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        limit = SECONDS_MAX
        if kill is not None and kill.fraction is not None:
            limit = max(_DELAY_MIN_S, kill.fraction * takes_s)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as expired:
            process.kill()
            out, err = process.communicate()
            if limit == SECONDS_MAX:
                raise Hangs(f"{shlex.join(argv)}: {limit:.0f} s") from expired
        took = time.monotonic() - began
        return Answer(
            argv, process.returncode, os.fsdecode(out), os.fsdecode(err), took
        )
