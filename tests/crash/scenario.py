"""What the crash run does: each verb in turn, on checkpoints of every kind.

A Verb says what the user did just before it, which command is run, and how the
state differs afterwards. The same list is run once without a kill, to learn how
long each takes and which kill points it passes, and then again and again with
kills.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Callable

import checkpoints
from checkpoints import MIB, Content, Pool
from invariants import Expected, State

CONFIG = """
[[framework]]
name = "ours"
directory = 'ckpt_(?P<step>\\d+)'
complete = ["DONE"]
pointer = "latest"
pointer_content = "{name}"

[engine]
threads = 4

[release]
grace = "0 s"
"""


@dataclasses.dataclass(frozen=True)
class World:
    """Where a scenario takes place."""

    folder: pathlib.Path
    # Runs cairn to the end, or to the kill point of the second argument.
    cairn: Callable[[tuple[str, ...], str], None]

    @property
    def accelerator(self) -> pathlib.Path:
        return self.folder / "acc"

    @property
    def core(self) -> pathlib.Path:
        return self.folder / "core"

    @property
    def state(self) -> pathlib.Path:
        return self.folder / "cairn-state"


def _nothing(_: World) -> None:
    pass


def _same(_: State) -> None:
    pass


@dataclasses.dataclass(frozen=True)
class Verb:
    argv: tuple[str, ...]
    effect: Callable[[State], None] = _same  # Of the verb.
    user: Callable[[World], None] = _nothing  # Does this before,
    user_effect: Callable[[State], None] = _same  # with this effect.
    # Whose bytes are counted, to see that none is copied twice.
    exports: Content | None = None
    restores: Content | None = None
    # Exit codes when it is run again after a kill: the work may be done.
    codes_again: frozenset[int] = frozenset({0, 4})
    settled: bool = True  # The catalog says of everything what the tiers say.
    swept: bool = False  # Nothing is left over afterwards.

    @property
    def name(self) -> str:
        return self.argv[0]

    def __str__(self) -> str:
        return " ".join(self.argv)


# --- Effects ------------------------------------------------------------------

Effect = Callable[[State], None]


def change(state: State, content: Content, **fields: object) -> None:
    old = state.get(content.path, Expected())
    state[content.path] = dataclasses.replace(old, **fields)  # type: ignore[arg-type]


def placed(*contents: Content) -> Effect:
    def effect(state: State) -> None:
        for content in contents:
            change(state, content, place=content)

    return effect


def deleted(*contents: Content) -> Effect:
    def effect(state: State) -> None:
        for content in contents:
            change(state, content, place=None)

    return effect


def committed(*contents: Content) -> Effect:
    def effect(state: State) -> None:
        for content in contents:
            change(state, content, place=content, local=content)

    return effect


def noticed(*contents: Content) -> Effect:
    """That they are no longer on the accelerator tier."""

    def effect(state: State) -> None:
        for content in contents:
            change(state, content, local=None)

    return effect


def exported(*contents: Content) -> Effect:
    def effect(state: State) -> None:
        for content in contents:
            core = state[content.path].core | {content}
            change(state, content, core=core)

    return effect


def released(*contents: Content) -> Effect:
    def effect(state: State) -> None:
        for content in contents:
            marked = state[content.path].released | {content}
            change(state, content, place=None, local=None, released=marked)

    return effect


def restored(*contents: Content) -> Effect:
    def effect(state: State) -> None:
        for content in contents:
            marked = state[content.path].released - {content}
            change(
                state, content, place=content, local=content, released=marked
            )

    return effect


def removed(*contents: Content) -> Effect:
    def effect(state: State) -> None:
        for content in contents:
            core = state[content.path].core - {content}
            change(state, content, core=core)

    return effect


def pinned(content: Content, yes: bool) -> Effect:
    return lambda state: change(state, content, pinned=yes)


# --- The contents -------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Contents:
    a100: Content
    a200: Content
    a300: Content
    a300_rotten: Content
    b10: Content
    b20: Content
    c: Content
    d: Content
    e1: Content
    e1_again: Content
    f1: Content
    s10: Content
    s20: Content
    s20_rotten: Content

    def all(self) -> list[Content]:
        return [getattr(self, f.name) for f in dataclasses.fields(self)]


def make_contents(pool: Pool) -> Contents:
    directory, single = checkpoints.directory, checkpoints.single_file
    a300 = directory(
        pool, "modelA/ckpt_300", "first", {"w.bin": 9 * MIB, "log": 100}
    )
    several = checkpoints.several_files
    s20 = several(pool, "modelS/m-20", "first", [2 * MIB, 300_000])
    shard = s20.names[0]
    return Contents(
        a100=checkpoints.everything(pool, "modelA/ckpt_100", "first"),
        a200=directory(pool, "modelA/ckpt_200", "first", {"w.bin": 40_000_000}),
        a300=a300,
        a300_rotten=checkpoints.flipped(pool, a300, "w.bin", 5 * MIB),
        b10=single(pool, "modelB/step_10.safetensors", "first", 12 * MIB),
        b20=single(pool, "modelB/step_20.safetensors", "first", 1 * MIB),
        c=directory(pool, "modelC/odd", "first", {"x.raw": 200_000}),
        d=directory(
            pool,
            "modelD/final",
            "first",
            {"w.bin": 17 * MIB + 1, "deep/er/y.bin": 10_000, "empty": 0},
        ),
        e1=directory(pool, "modelE/ckpt_1", "first", {"nothing.bin": 0}),
        e1_again=directory(
            pool,
            "modelE/ckpt_1",
            "second",
            {"nothing.bin": 0, "w.bin": 9 * MIB + 5, "x.bin": 7},
        ),
        f1=directory(
            pool, "modelF/ckpt_1", "first", {"w.bin": 17 * MIB, "x.bin": 9}
        ),
        s10=several(pool, "modelS/m-10", "first", [9 * MIB, 500_000]),
        s20=s20,
        s20_rotten=checkpoints.flipped(pool, s20, shard, 1 * MIB),
    )


# --- The scenario -------------------------------------------------------------


def make_verbs(k: Contents) -> list[Verb]:
    return [
        *_first_commits(k),
        *_first_exports(k),
        *_releases_and_restores(k),
        *_after_loss_and_damage(k),
        *_rewritten_and_removed(k),
        *_housekeeping(k),
    ]


def _write(*contents: Content) -> Callable[[World], None]:
    def user(world: World) -> None:
        for content in contents:
            content.write(world.accelerator)

    return user


def _delete(*contents: Content) -> Callable[[World], None]:
    def user(world: World) -> None:
        for content in contents:
            content.remove(world.accelerator)

    return user


def _first_commits(k: Contents) -> list[Verb]:
    at_once = (k.a100, k.a200, k.b10, k.b20, k.s10, k.s20, k.e1)
    return [
        Verb(
            ("scan",),
            committed(*at_once),
            user=_write(*at_once),
            user_effect=placed(*at_once),
        ),
        Verb(
            ("commit", k.a300.path),
            committed(k.a300),
            user=_write(k.a300),
            user_effect=placed(k.a300),
        ),
        Verb(
            ("adopt", k.c.path),
            committed(k.c),
            user=_write(k.c),
            user_effect=placed(k.c),
        ),
        # What is there already is never overwritten, so the second try is
        # refused where the first one had got through.
        Verb(
            ("save", k.d.path, "--from", str(k.d.source)),
            committed(k.d),
            codes_again=frozenset({0, 1}),
        ),
    ]


def _first_exports(k: Contents) -> list[Verb]:
    rest = (k.a200, k.a300, k.b10, k.b20, k.s20, k.e1, k.c, k.d)
    return [
        Verb(("export", k.a100.path), exported(k.a100), exports=k.a100),
        Verb(("export", k.s10.path), exported(k.s10), exports=k.s10),
        Verb(("export", k.a200.path), exported(k.a200), exports=k.a200),
        Verb(("export", "--all"), exported(*rest)),
        Verb(("pin", k.a100.path), pinned(k.a100, True)),
    ]


def _releases_and_restores(k: Contents) -> list[Verb]:
    return [
        Verb(("release", k.a200.path), released(k.a200)),
        Verb(("restore", k.a200.path), restored(k.a200), restores=k.a200),
        Verb(("release", k.s10.path), released(k.s10)),
        Verb(("restore", k.s10.path), restored(k.s10), restores=k.s10),
        # Not the pinned one, and not the newest of any run.
        Verb(("release", "--all"), released(k.a200, k.b10, k.s10)),
    ]


def _after_loss_and_damage(k: Contents) -> list[Verb]:
    return [
        Verb(
            ("latest", "modelA", "--restore"),
            restored(k.a300),
            user=_delete(k.a100, k.a300),
            user_effect=deleted(k.a100, k.a300),
            settled=False,
        ),
        Verb(("scan",), noticed(k.a100)),
        Verb(("restore", k.a100.path), restored(k.a100), restores=k.a100),
        Verb(
            ("restore", k.a300.path),
            restored(k.a300),
            user=_write(k.a300_rotten),
            user_effect=placed(k.a300_rotten),
        ),
        Verb(
            ("restore", k.s20.path),
            restored(k.s20),
            user=_write(k.s20_rotten),
            user_effect=placed(k.s20_rotten),
        ),
    ]


def _rewritten_and_removed(k: Contents) -> list[Verb]:
    return [
        Verb(
            ("scan",),
            committed(k.e1_again),
            user=_write(k.e1_again),
            user_effect=placed(k.e1_again),
        ),
        Verb(
            ("export", k.e1_again.path),
            exported(k.e1_again),
            exports=k.e1_again,
        ),
        Verb(("remove", "--tier", "core", k.b20.path), removed(k.b20)),
        # Released, so this was the only copy.
        Verb(
            ("remove", "--tier", "core", "--force", k.b10.path),
            removed(k.b10),
            codes_again=frozenset({0, 1, 4}),
        ),
        Verb(("unpin", k.a100.path), pinned(k.a100, False)),
    ]


def _housekeeping(k: Contents) -> list[Verb]:
    def forget(world: World) -> None:
        shutil.rmtree(world.state)

    def leave_things(world: World) -> None:
        """Of a save, and of an export whose checkpoint was deleted then."""
        save = ("save", "modelD/other", "--from", str(k.d.source))
        world.cairn(save, "publish.before_decision")
        k.f1.write(world.accelerator)
        world.cairn(("commit", k.f1.path), "")
        world.cairn(("export", k.f1.path), "export.after_part:2")
        k.f1.remove(world.accelerator)
        world.cairn(("scan",), "")
        # What was being written when an earlier verb was killed is old by now.
        ours = world.accelerator / ".cairn"
        (ours / "manifests/.tmp-left").touch()
        for file in ours.rglob(".tmp-*"):
            os.utime(file, (0, 0))

    return [
        Verb(("rebuild",), user=forget),
        Verb(("sweep", "--unreferenced"), user=leave_things, swept=True),
        Verb(("verify", "--all")),
    ]
