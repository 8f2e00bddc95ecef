#!/usr/bin/env python3
"""Kills cairn with kill -9, again and again, and looks at what it left.

    crash.py [--kills N] [--seed S] [--cairn PATH] [--folder DIR] [--keep]

First the scenario (scenario.py) is run without a kill: this tells how long
each verb takes, which kill points it passes how often, and what `cairn ls` has
to say after it. Then faults are planted, to see that the judge (invariants.py)
finds them. Then the scenario is run in rounds, each in a new workspace; in
each, verbs are killed at kill points and at random moments, once or several
times in a row. After every kill the tiers are judged; then the verb is run
again, has to finish, to copy nothing again, and to leave everything as if it
had not been killed.

A failure names the round and its kills; --round and --plan repeat just these.
docs/testing.md says more.
"""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import os
import pathlib
import random
import re
import shlex
import shutil
import sys
import tempfile
import time
from typing import Any

import faults
import invariants
import scenario
from checkpoints import Content, Pool
from invariants import Judge, State, Step
from program import Answer, Hangs, Kill, Program

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"
KILLS_FOR_COVERAGE = 300  # From here on, every point has to have had its kill.
FAILURES_MAX = 5
MOMENTS_SHARE = 0.3  # Of the kills, at least so many are at random moments.


class Failed(Exception):
    """What does not hold, in words."""


def kill_points() -> set[str]:
    """Every name in the sources."""
    names: set[str] = set()
    for file in [*SOURCES.rglob("*.cc"), *SOURCES.rglob("*.h")]:
        if file.stem in ("kill_point", "kill_point_test"):
            continue
        found = re.findall(r'CAIRN_KILL_POINT\(\s*"([^"]+)"', file.read_text())
        names |= set(found)
    return names


# --- One workspace ------------------------------------------------------------


class Workspace:
    """Two tiers, and what should be of them. One thread at a time."""

    def __init__(
        self, program: str, folder: pathlib.Path, contents: list[Content]
    ) -> None:
        folder.mkdir()
        self.program = Program(program, folder)
        self.world = scenario.World(folder, self._helper)
        self.world.accelerator.mkdir()
        self.state: State = {}
        self.judge = Judge(
            self.world.accelerator,
            self.world.core,
            contents,
            invariants.Digests(),
        )
        core = f"file://{self.world.core}"
        self._must("init", "--accelerator", "./acc", "--core", core)
        with open(folder / "cairn.toml", "a") as config:
            config.write(scenario.CONFIG)

    def _must(
        self, *argv: str, environment: dict[str, str] | None = None
    ) -> Answer:
        answer = self.program.run(*argv, environment=environment)
        if answer.code != 0:
            raise Failed(str(answer))
        return answer

    def _helper(self, argv: tuple[str, ...], kill_at: str) -> None:
        """For what the scenario does around its verbs."""
        kill = Kill(kill_at) if kill_at else None
        answer = self.program.run(*argv, kill=kill)
        if answer.killed != bool(kill) or (not kill and answer.code != 0):
            raise Failed(f"while preparing: {answer}")

    def hold(self, step: Step, swept: bool = False) -> None:
        problems = self.judge.problems(step, swept)
        if problems:
            raise Failed("\n".join(problems))

    def listing(self, environment: dict[str, str] | None = None) -> list[Any]:
        answer = self._must(
            "ls", "--all-generations", "--json", environment=environment
        )
        found: list[Any] = answer.json()["checkpoints"]
        return sorted(found, key=lambda c: (c["path"], c["sequence"]))

    def check_listing(self, listing: list[Any]) -> None:
        """`ls` against the state, checkpoint by checkpoint."""
        wanted = {
            path: (e.local is not None, e.place in e.core, e.pinned)
            for path, e in self.state.items()
            if e.local is not None or e.core
        }
        found = {
            c["path"]: (c["present"], c["archived"], c["pinned"])
            for c in listing
            if c["newest_generation"]
        }
        for path, (present, _, pinned) in wanted.items():
            if path not in found:
                raise Failed(f"ls does not know {path}")
            if (found[path][0], found[path][2]) != (present, pinned):
                raise Failed(
                    f"ls has {path} present, archived, pinned: {found[path]};"
                    f" it should be present: {present}, pinned: {pinned}"
                )
        for path in found.keys() - wanted.keys():
            raise Failed(f"ls has {path}, which is no longer anywhere")

    def check_rebuilt(self, listing: list[Any]) -> None:
        """A catalog made from the tiers alone says the same."""
        elsewhere = self.world.folder / "rebuilt"
        environment = {"CAIRN_STATE_DIR": str(elsewhere)}
        self._must("rebuild", environment=environment)
        rebuilt = self.listing(environment)
        shutil.rmtree(elsewhere)
        if wrong := listing_differs(listing, rebuilt):
            raise Failed(f"a rebuilt catalog says otherwise: {wrong}")


def listing_differs(wanted: list[Any], found: list[Any]) -> str:
    """Where; "" if it does not."""
    paths = [[c["path"] for c in one] for one in (wanted, found)]
    if paths[0] != paths[1]:
        return f"{paths[1]}, should be {paths[0]}"
    for one, other in zip(wanted, found, strict=True):
        for key in one:
            if one[key] != other.get(key):
                return (
                    f"{one['path']} {one.get('generation', '')} has {key}"
                    f" {other.get(key)!r}, should be {one[key]!r}"
                )
    return ""


def without_chance(listing: list[Any]) -> list[Any]:
    """What two runs of the scenario have to agree on."""
    kept = []
    for checkpoint in listing:
        one = dict(checkpoint)
        for name in ("generation", "sequence", "created"):
            del one[name]
        kept.append(one)
    return kept


# --- What a verb copies -------------------------------------------------------


def copied_again(total: int, durable: int, sent: int, skipped: int) -> str:
    """Of `total` bytes, `durable` were safe before the verb ran again."""
    if sent + skipped not in (0, total):
        return f"{sent} + {skipped} bytes reported of {total}"
    if sent > total - durable:
        return f"copied {sent} bytes, with {durable} of {total} safe already"
    if sent + skipped == 0 and durable < total:
        return f"nothing to do, with only {durable} bytes of {total} safe"
    return ""


def durable_bytes(workspace: Workspace, verb: scenario.Verb) -> int:
    world, digests = workspace.world, workspace.judge.digests
    if verb.exports:
        return invariants.durable_on_core(verb.exports, world.core, digests)
    if verb.restores:
        return invariants.durable_in_staging(
            verb.restores, world.accelerator, digests
        )
    return 0


def check_copied(verb: scenario.Verb, answer: Answer, durable: int) -> None:
    content = verb.exports or verb.restores
    if content is None:
        return
    report = answer.json()
    if verb.exports:
        (report,) = report["outcomes"]
    wrong = copied_again(
        content.size(), durable, report["bytes"], report["bytes_skipped"]
    )
    if wrong:
        raise Failed(f"{wrong}\n{answer}")


# --- The run without kills ----------------------------------------------------


@dataclasses.dataclass
class Reference:
    """What the scenario does when nobody disturbs it, verb by verb."""

    seconds: list[float] = dataclasses.field(default_factory=list)
    passages: list[collections.Counter[str]] = dataclasses.field(
        default_factory=list
    )
    listings: list[list[Any]] = dataclasses.field(default_factory=list)

    def passed(self) -> set[str]:
        return {name for counter in self.passages for name in counter}


def run_reference(
    workspace: Workspace, verbs: list[scenario.Verb]
) -> Reference:
    reference = Reference()
    trace = workspace.world.folder / "trace"
    for verb in verbs:
        verb.user(workspace.world)
        verb.user_effect(workspace.state)
        before = copy.copy(workspace.state)
        verb.effect(workspace.state)
        trace.unlink(missing_ok=True)
        answer = workspace.program.run(
            *verb.argv,
            "--json",
            environment={"CAIRN_KILL_TRACE": str(trace)},
        )
        if answer.code != 0:
            raise Failed(str(answer))
        lines = trace.read_text().split() if trace.exists() else []
        reference.seconds.append(answer.seconds)
        reference.passages.append(collections.Counter(lines))
        try:
            workspace.hold(Step(before, workspace.state, True), verb.swept)
            check_copied(verb, answer, 0)
            listing = workspace.listing()
            reference.listings.append(without_chance(listing))
            if verb.settled:
                workspace.check_listing(listing)
                workspace.check_rebuilt(listing)
        except Failed as failed:
            raise Failed(f"after `{verb}`, not killed: {failed}") from failed
    return reference


# --- Which kills --------------------------------------------------------------


class Planner:
    """Chooses kills: first what no kill has been at, in the end everything."""

    def __init__(self, reference: Reference, chance: random.Random) -> None:
        self._chance = chance
        self.hits: collections.Counter[str] = collections.Counter()
        self._passages = reference.passages
        self._order = [
            {point: place for place, point in enumerate(passages)}
            for passages in reference.passages
        ]
        self._pending: list[list[Kill]] = []
        for passages in reference.passages:
            kills = []
            for point, count in passages.items():
                wanted = {1, min(2, count), chance.randint(1, count)}
                kills += [Kill(f"{point}:{n}") for n in sorted(wanted)]
            self._pending.append(kills)

    def choose(self, index: int, after: Kill | None) -> Kill | None:
        """The next kill of a verb, or None to let it finish."""
        pending = self._pending[index]
        if not pending:
            for point, count in self._passages[index].items():
                passage = self._chance.randint(1, count)
                pending.append(Kill(f"{point}:{passage}"))
        new = {k.point for k in pending if not self.hits[k.point]}
        if after is not None:
            again = 0.6 if new else 0.2
            if self._chance.random() > again:
                return None
        if not pending or self._chance.random() < MOMENTS_SHARE:
            return Kill(f"{self._chance.random() * 1.05:.4f}")
        order = self._order[index]
        # What was passed by the killed run is not passed again.
        least = order.get(after.point, 0) if after is not None else 0
        later = [k for k in pending if order[k.point] >= least]
        if not later:
            return None
        chosen = min(
            later,
            key=lambda k: (self.hits[k.point] > 0, self._chance.random()),
        )
        pending.remove(chosen)
        return chosen

    def missed(self, index: int, kill: Kill, is_first: bool) -> None:
        """It was not reached. Only a verb that starts anew reaches all."""
        if kill.point and not is_first:
            self._pending[index].append(kill)


class FixedPlan:
    """Repeats the kills of a failure: "3=export.after_part:2 3=0.5"."""

    def __init__(self, text: str) -> None:
        self.hits: collections.Counter[str] = collections.Counter()
        self._kills: dict[int, list[Kill]] = {}
        for part in text.split():
            index, _, kill = part.partition("=")
            self._kills.setdefault(int(index), []).append(Kill(kill))

    def choose(self, index: int, _: Kill | None) -> Kill | None:
        kills = self._kills.get(index, [])
        return kills.pop(0) if kills else None

    def missed(self, index: int, kill: Kill, is_first: bool) -> None:
        print(f"  {kill.text} was not reached in verb {index}")


# --- Rounds -------------------------------------------------------------------


class Round:
    """The scenario once, with kills."""

    def __init__(
        self,
        workspace: Workspace,
        verbs: list[scenario.Verb],
        reference: Reference,
        planner: Planner | FixedPlan,
    ) -> None:
        self.workspace = workspace
        self.verbs = verbs
        self.reference = reference
        self.planner = planner
        self.kills: list[str] = []  # As FixedPlan takes them.
        self.judged = 0  # Kills after which everything held, to the end.

    def play(self, kills_max: int) -> None:
        for index in range(len(self.verbs)):
            if len(self.kills) >= kills_max:
                return
            try:
                self._verb(index)
            except (Failed, Hangs) as failed:
                raise Failed(
                    f"verb {index}, `{self.verbs[index]}`: {failed}"
                ) from failed
            self.judged = len(self.kills)

    def _verb(self, index: int) -> None:
        verb, workspace = self.verbs[index], self.workspace
        verb.user(workspace.world)
        verb.user_effect(workspace.state)
        before = copy.copy(workspace.state)
        verb.effect(workspace.state)
        answer, durable = self._killed(index, before)
        was_killed = answer is None or answer.killed
        if was_killed:
            answer = workspace.program.run(*verb.argv, "--json")
        assert answer is not None
        codes = {0} | (verb.codes_again if durable is not None else set())
        if answer.code not in codes:
            raise Failed(f"did not finish: {answer}")
        workspace.hold(Step(before, workspace.state, True), swept=verb.swept)
        if durable is not None and answer.code in (0, 4):
            check_copied(verb, answer, durable)
        listing = workspace.listing()
        wanted = self.reference.listings[index]
        if wrong := listing_differs(wanted, without_chance(listing)):
            raise Failed(f"ls is not as without a kill: {wrong}")
        if verb.settled:
            workspace.check_listing(listing)
            workspace.check_rebuilt(listing)

    def _killed(
        self, index: int, before: State
    ) -> tuple[Answer | None, int | None]:
        """Kills the verb as often as is planned. The last answer, if it was let
        finish; and how much was safe after the last kill, if there was one."""
        verb, workspace = self.verbs[index], self.workspace
        last: Kill | None = None
        durable: int | None = None
        while (kill := self.planner.choose(index, last)) is not None:
            answer = workspace.program.run(
                *verb.argv,
                "--json",
                kill=kill,
                takes_s=self.reference.seconds[index],
            )
            if not answer.killed:
                self.planner.missed(index, kill, is_first=last is None)
                return answer, durable
            last = kill
            self.kills.append(f"{index}={kill.text}")
            self.planner.hits[kill.point or "a random moment"] += 1
            workspace.hold(Step(before, workspace.state, False))
            durable = durable_bytes(workspace, verb)
        return None, durable


# --- The whole ----------------------------------------------------------------


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--cairn", default=os.environ.get("CAIRN_BIN", ""))
    parser.add_argument(
        "--folder", default=None, help="where to work; default: $TMPDIR"
    )
    parser.add_argument("--keep", action="store_true", help="remove nothing")
    parser.add_argument("--round", type=int, default=None, help="only this one")
    parser.add_argument("--plan", default=None, help="with just these kills")
    arguments = parser.parse_args()
    found = shutil.which(arguments.cairn) if arguments.cairn else None
    if found is None:
        parser.error(
            f"{arguments.cairn!r} is no program: set CAIRN_BIN or --cairn to"
            " a cairn that was built with kill points"
        )
    arguments.cairn = os.path.abspath(found)
    return arguments


class CrashRun:
    """One whole run. One thread at a time."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.seed = arguments.seed
        if self.seed is None:
            self.seed = random.SystemRandom().randrange(1 << 32)
        self.folder = pathlib.Path(
            tempfile.mkdtemp(prefix="cairn-crash-", dir=arguments.folder)
        )
        self.passed = 0
        self.failures: list[str] = []
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", flush=True)

    def run(self) -> int:
        self.say(f"seed {self.seed}, in {self.folder}")
        pool = Pool(self.folder / "pool", self.seed)
        contents = scenario.make_contents(pool)
        verbs = scenario.make_verbs(contents)
        try:
            reference = self._reference(contents, verbs)
        except (Failed, Hangs) as failed:
            self._fail(str(failed))
            return self._end()
        chance = random.Random(self.seed)
        planner: Planner | FixedPlan = Planner(reference, chance)
        if self.arguments.plan is not None:
            planner = FixedPlan(self.arguments.plan)
        number = self.arguments.round or 1
        wanted = self.arguments.kills
        while self.passed < wanted and len(self.failures) < FAILURES_MAX:
            self._round(number, contents, verbs, reference, planner, wanted)
            if self.arguments.plan is not None:
                break
            number += 1
        self._check_coverage(reference, planner)
        return self._end()

    def _reference(
        self, contents: scenario.Contents, verbs: list[scenario.Verb]
    ) -> Reference:
        workspace = Workspace(
            self.arguments.cairn, self.folder / "undisturbed", contents.all()
        )
        reference = run_reference(workspace, verbs)
        self.say(
            f"{len(verbs)} verbs without a kill:"
            f" {sum(reference.seconds):.1f} s,"
            f" {len(reference.passed())} kill points passed"
        )
        seen, planted = faults.plant_all(
            workspace.world, workspace.judge, workspace.state, contents
        )
        planted.append("a second copy")
        if copied_again(total=100, durable=60, sent=50, skipped=50):
            seen.append("a second copy")
        self.say(f"self-test: {len(seen)} of {len(planted)} faults were seen")
        for fault in set(planted) - set(seen):
            self._fail(f"the judge does not see {fault}")
        self._remove(workspace.world.folder)
        return reference

    def _round(
        self,
        number: int,
        contents: scenario.Contents,
        verbs: list[scenario.Verb],
        reference: Reference,
        planner: Planner | FixedPlan,
        wanted: int,
    ) -> None:
        workspace = Workspace(
            self.arguments.cairn, self.folder / f"round{number}", contents.all()
        )
        played = Round(workspace, verbs, reference, planner)
        try:
            played.play(wanted - self.passed)
        except Failed as failed:
            again = [
                *("tests/crash/crash.py", "--cairn", self.arguments.cairn),
                *("--seed", str(self.seed), "--round", str(number)),
                *("--plan", " ".join(played.kills)),
            ]
            self._fail(
                f"round {number}, {failed}\n"
                f"left in {workspace.world.folder}; again with\n"
                f"  {shlex.join(again)}"
            )
        else:
            self._remove(workspace.world.folder)
        self.passed += played.judged
        self.say(f"round {number}: {self.passed} kills passed so far")

    def _check_coverage(
        self, reference: Reference, planner: Planner | FixedPlan
    ) -> None:
        names = kill_points()
        self.say(
            "kills: "
            + ", ".join(f"{n} {c}" for n, c in sorted(planner.hits.items()))
        )
        never = names - reference.passed()
        if never:
            self._fail(f"passed by no verb of the scenario: {sorted(never)}")
        if self.passed >= KILLS_FOR_COVERAGE:
            unhit = {name for name in names - never if not planner.hits[name]}
            if unhit:
                self._fail(f"no kill was at {sorted(unhit)}")

    def _fail(self, text: str) -> None:
        self.failures.append(text)
        self.say(f"FAILED: {text}")

    def _remove(self, folder: pathlib.Path) -> None:
        if not self.arguments.keep:
            shutil.rmtree(folder)

    def _end(self) -> int:
        if not self.failures:
            self._remove(self.folder)
        print(
            f"{self.passed} passed, {len(self.failures)} failed"
            f" (seed {self.seed})"
        )
        return 1 if self.failures else 0


if __name__ == "__main__":
    sys.exit(CrashRun(parse_arguments()).run())
