"""The life of a checkpoint: train, export, kill, wipe, restore, resume.

    CAIRN_BIN=build/release/apps/cairn/cairn examples/demo.sh [--work DIR]

Two small language models (examples/train.py) train on the CPU: run `lm` saves
with plain torch.save, run `lm-dcp` with torch.distributed.checkpoint from two
processes. Meanwhile `cairn` exports what is complete. Each trainer is killed
with SIGKILL in the middle of a save; then the whole accelerator directory is
deleted. What cairn restores has to be the newest good checkpoint, byte for
byte, and training that goes on from it has to give the losses of a run that was
never interrupted, bit for bit. Every claim is checked; the exit status is 1 if
one does not hold. All that was made stays in DIR (build/demo) to look at.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator

from demo_report import Report, mb, plot_svg, plot_text, rate

EXAMPLES = pathlib.Path(__file__).resolve().parent
MARKER = ".cairn-demo"  # In directories that this script may empty.
STEPS = 60
SAVE_EVERY = 10
KILL_FROM = (
    40  # The first save to be killed in; a later one if that was missed.
)

TRAINER_SECONDS_MAX = 300.0
CAIRN_SECONDS_MAX = 300.0
# Nothing to do is no failure for the loop, nor is an unfinished checkpoint.
LOOP_CODES = (0, 4)


class DemoError(Exception):
    """The story cannot go on."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One of the two ways to save."""

    name: str
    processes: int
    what: str

    def checkpoint(self, step: int) -> str:
        return f"step-{step:06d}.pt" if self.processes == 1 else f"step-{step}"


FILE_RUN = Run("lm", 1, "torch.save, one process")
DCP_RUN = Run("lm-dcp", 2, "torch.distributed.checkpoint, two processes")


# --- What lies on disk --------------------------------------------------------


def files_of(path: pathlib.Path) -> list[pathlib.Path]:
    if path.is_file():
        return [path]
    return sorted(p for p in path.rglob("*") if p.is_file())


def size_of(path: pathlib.Path) -> int:
    size = 0
    for file in files_of(path):
        with contextlib.suppress(FileNotFoundError):  # Renamed meanwhile.
            size += file.stat().st_size
    return size


def digest_of(path: pathlib.Path) -> str:
    """SHA-256 over names, modes, times to the nanosecond, and content."""
    digest = hashlib.sha256()
    for file in files_of(path):
        status = file.stat()
        name = os.fsencode(file.relative_to(path.parent))
        head = f"{status.st_mode:o} {status.st_mtime_ns} {status.st_size}"
        digest.update(name + b"\0" + head.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def losses_of(*logs: pathlib.Path) -> dict[int, str]:
    """Loss of each step as a hexadecimal float; a later log wins."""
    losses: dict[int, str] = {}
    for log in logs:
        for record in read_log(log):
            if record["event"] == "step":
                losses[int(str(record["step"]))] = str(record["loss"])
    return losses


def read_log(log: pathlib.Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


# --- The trainer, and how it dies ---------------------------------------------


class Trainer:
    """A running train.py, in a process group of its own."""

    def __init__(
        self, work: pathlib.Path, run: Run, out: str, log: str, *more: str
    ) -> None:
        self.work, self.run, self.out = work, run, work / out
        self.log = work / "logs" / f"{log}.jsonl"
        self.output = work / "logs" / f"{log}.txt"
        command = [
            *(sys.executable, str(EXAMPLES / "train.py")),
            *("--out", out, "--log", str(self.log)),
            *("--steps", str(STEPS), "--save-every", str(SAVE_EVERY)),
            *("--processes", str(run.processes), *more),
        ]
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started = time.monotonic()

    def wait(self) -> float:
        """Seconds that it ran; it has to end well."""
        try:
            code = self.process.wait(TRAINER_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise self.failure("did not end in time") from None
        if code:
            raise self.failure(f"ended with {code}")
        return time.monotonic() - self.started

    def failure(self, why: str) -> DemoError:
        tail = self.output.read_text(errors="replace").splitlines()[-15:]
        return DemoError("\n".join([f"the trainer {why}:", *tail]))

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self) -> None:
        """Kills whatever is left of it."""
        self.signal(signal.SIGKILL)
        self.process.wait()

    def states(self) -> list[str]:
        """State letter of each process of the group, as the kernel has it."""
        states = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rsplit(")", 1)[1].split()
                if int(fields[2]) == self.process.pid:
                    states.append(fields[0])
        return states

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)
        while any(state not in "TtZX" for state in self.states()):
            time.sleep(0.001)

    def saves(self) -> list[dict[str, object]]:
        return [r for r in read_log(self.log) if r["event"] == "save"]

    def kill_in_save(self, whole_bytes: int) -> pathlib.Path:
        """SIGKILL to all its processes in the middle of a save; what is left.

        The save is seen by its file growing. The trainer is then frozen, so
        that one can look whether the save is really unfinished, and killed as
        it stands if so; otherwise it goes on, to be caught in its next save.
        """
        deadline = self.started + TRAINER_SECONDS_MAX
        for step in range(KILL_FROM, STEPS + 1, SAVE_EVERY):
            path = self.out / self.run.checkpoint(step)
            while not self.unfinished(path, whole_bytes):
                if self.process.poll() is not None:
                    raise self.failure("ended before it could be killed")
                if time.monotonic() > deadline:
                    raise self.failure("did not come to its save in time")
                if self.finished(path, whole_bytes):
                    break
                time.sleep(0.0005)
            else:
                self.freeze()
                if self.unfinished(path, whole_bytes):
                    self.end()
                    return path
                self.signal(signal.SIGCONT)
        self.end()
        raise DemoError("each save was over before the kill came")

    def unfinished(self, path: pathlib.Path, whole_bytes: int) -> bool:
        size = size_of(path) if path.exists() else 0
        return size > whole_bytes / 5 and not self.finished(path, whole_bytes)

    def finished(self, path: pathlib.Path, whole_bytes: int) -> bool:
        if self.run.processes > 1:
            return (path / ".metadata").exists()
        # The number of the step is in it, so sizes may differ by some bytes.
        return path.exists() and path.stat().st_size > 0.99 * whole_bytes


def readable_by_torch(run: Run, path: pathlib.Path) -> bool:
    """Whether torch could even begin to read it."""
    if run.processes > 1:
        return (path / ".metadata").exists()
    return zipfile.is_zipfile(path)


# --- cairn --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str
    seconds: float


class Cairn:
    """The program, run in the work directory, where its cairn.toml lies."""

    def __init__(
        self, program: str, work: pathlib.Path, report: Report
    ) -> None:
        self.program, self.work, self.report = program, work, report

    def quiet(self, *arguments: str) -> Answer:
        start = time.monotonic()
        try:
            done = subprocess.run(
                [self.program, *arguments],
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="surrogateescape",
                timeout=CAIRN_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired as error:
            return Answer(-1, "", str(error), CAIRN_SECONDS_MAX)
        seconds = time.monotonic() - start
        return Answer(done.returncode, done.stdout, done.stderr, seconds)

    def shown(self, *arguments: str) -> Answer:
        """Runs it, and shows command and answer as on a terminal."""
        answer = self.quiet(*arguments)
        self.report.command(
            shlex.join(["cairn", *arguments]), answer.out + answer.err
        )
        if answer.code:
            self.report.say(f"(exit status {answer.code})")
        return answer

    def ok(self, *arguments: str) -> Answer:
        answer = self.shown(*arguments)
        if answer.code:
            raise DemoError(f"cairn {shlex.join(arguments)}: {answer.err}")
        return answer


class Mover:
    """`cairn scan` and `cairn export --all`, over and over, in a thread."""

    def __init__(self, cairn: Cairn, core: pathlib.Path) -> None:
        self.cairn, self.core = cairn, core
        self.rounds = 0
        self.seconds = 0.0  # In exports that moved something.
        self.bytes = 0
        self.failures: list[str] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.loop)

    def loop(self) -> None:
        while not self.stopping.wait(0.3):
            self.round()

    def round(self) -> None:
        before = size_of(self.core)
        for arguments in (("scan",), ("export", "--all")):
            answer = self.cairn.quiet(*arguments)
            if answer.code not in LOOP_CODES:
                self.failures.append(
                    f"cairn {' '.join(arguments)} ended with {answer.code}:"
                    f" {answer.err.strip()}"
                )
        moved = size_of(self.core) - before
        if moved > 0:
            self.bytes += moved
            self.seconds += answer.seconds
        self.rounds += 1

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Runs beside the body, and once more after it."""
        self.stopping.clear()
        self.thread = threading.Thread(target=self.loop)
        self.thread.start()
        try:
            yield
        finally:
            self.stopping.set()
            self.thread.join()
        self.round()


# --- The story ----------------------------------------------------------------


@dataclasses.dataclass
class Course:
    """What became of one run."""

    run: Run
    reference: pathlib.Path  # Log of the uninterrupted run.
    reference_seconds: float = 0.0
    whole_bytes: int = 0
    save_seconds: float = 0.0
    cut: str = ""  # The checkpoint that the kill left unfinished.
    cut_bytes: int = 0
    good: str = ""  # The newest complete one before it.
    digest: str = ""
    last_step: int = 0  # The last that was logged before the kill.
    before: pathlib.Path | None = None  # Logs of the real run.
    after: pathlib.Path | None = None
    restore_seconds: float = 0.0
    equal_steps: int = 0


class Demo:
    def __init__(self, program: str, work: pathlib.Path) -> None:
        self.work = work
        self.report = Report()
        self.cairn = Cairn(program, work, self.report)
        self.accelerator = work / "acc"
        self.core = work / "core"
        self.core_url = f"file://{self.core}"
        self.mover = Mover(self.cairn, self.core)
        self.courses: list[Course] = []
        self.trainers: list[Trainer] = []

    def start(self, run: Run, out: str, log: str, *more: str) -> Trainer:
        trainer = Trainer(self.work, run, out, log, *more)
        self.trainers.append(trainer)
        return trainer

    def tell(self) -> int:
        """The whole story; the exit status."""
        started = time.monotonic()
        try:
            runs = self.choose_runs()
            self.record_references(runs)
            self.begin()
            for course in self.courses:
                self.train_until_killed(course)
            self.look_at_the_wreck()
            self.wipe()
            for course in self.courses:
                self.restore(course)
            self.resume()
            self.keep_house()
        except DemoError as error:
            self.report.check(str(error), False)
        finally:
            for trainer in self.trainers:
                trainer.end()
        self.sum_up(time.monotonic() - started)
        return 0 if self.report.all_true() else 1

    def choose_runs(self) -> list[Run]:
        probe = subprocess.run(
            [sys.executable, "-c", "import train as t;"
             "print(t.torch.__version__); print(t.distributed_missing())"],
            cwd=EXAMPLES,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
        )  # fmt: skip
        if probe.returncode:
            raise DemoError(f"no torch in {sys.executable}: {probe.stderr}")
        version, missing, *_ = [*probe.stdout.split("\n"), ""]
        self.report.say(f"torch {version}, {os.cpu_count()} CPUs")
        if not missing:
            return [FILE_RUN, DCP_RUN]
        self.report.loud(
            "THE torch.distributed.checkpoint PART IS LEFT OUT:", missing
        )
        return [FILE_RUN]

    def record_references(self, runs: list[Run]) -> None:
        self.report.chapter(
            "Reference: the same training, uninterrupted",
            "Same seed and steps, in a directory of its own. Its losses are"
            " what the real runs have to reproduce.",
        )
        for run in runs:
            out = f"reference/{run.name}"
            trainer = self.start(run, out, f"{run.name}-reference")
            course = Course(run, trainer.log)
            course.reference_seconds = trainer.wait()
            saves = trainer.saves()
            course.whole_bytes = size_of(
                self.work / out / run.checkpoint(STEPS)
            )
            course.save_seconds = sum(
                float(str(s["seconds"])) for s in saves
            ) / len(saves)
            losses = losses_of(trainer.log)
            self.report.say(
                f"{run.name} ({run.what}): {STEPS} steps in"
                f" {course.reference_seconds:.1f} s, loss"
                f" {float.fromhex(losses[1]):.3f} ->"
                f" {float.fromhex(losses[STEPS]):.3f}, {len(saves)} checkpoints"
                f" of {mb(course.whole_bytes)}"
            )
            self.courses.append(course)

    def begin(self) -> None:
        self.report.chapter(
            "The real thing: two tiers",
            "The accelerator tier is a directory that training writes to; the"
            " core tier is what keeps, here another directory.",
        )
        self.core.mkdir()
        self.accelerator.mkdir()
        self.init()

    def init(self, *more: str) -> None:
        self.cairn.ok(
            *("init", "--accelerator", "./acc", "--core", self.core_url, *more)
        )

    def train_until_killed(self, course: Course) -> None:
        run = course.run
        self.report.chapter(
            f"Run {run.name}: training, exporting, and a SIGKILL in a save",
            f"{run.what}; `cairn scan` and `cairn export --all` run in a loop"
            " beside it.",
        )
        with self.mover.running():
            trainer = self.start(run, f"acc/{run.name}", f"{run.name}-killed")
            cut = trainer.kill_in_save(course.whole_bytes)
        course.before = trainer.log
        course.cut, course.cut_bytes = cut.name, size_of(cut)
        losses = losses_of(trainer.log)
        course.last_step = max(losses)
        course.good = run.checkpoint(course.last_step - SAVE_EVERY)
        course.digest = digest_of(cut.parent / course.good)
        self.report.say(
            f"Killed all processes of the trainer after step"
            f" {course.last_step}, {mb(course.cut_bytes)} of"
            f" {mb(course.whole_bytes)} into {course.cut}."
        )
        self.report.check(
            f"{run.name}/{course.cut} is really unfinished: torch cannot"
            " read it",
            not readable_by_torch(run, cut),
        )
        self.report.check(
            f"the losses until then equal the reference's ({len(losses)}"
            " steps)",
            self.same_losses(course, losses) == len(losses),
        )

    def same_losses(self, course: Course, losses: dict[int, str]) -> int:
        reference = losses_of(course.reference)
        return sum(reference[step] == loss for step, loss in losses.items())

    def look_at_the_wreck(self) -> None:
        self.report.chapter(
            "What cairn makes of it",
            "Every checkpoint that is complete has been archived; what the"
            " kills left behind is refused, with the reason.",
        )
        scan = self.cairn.shown("scan")
        self.cairn.shown("ls")
        for course in self.courses:
            path = f"{course.run.name}/{course.cut}"
            self.report.check(f"scan names {path}", path in scan.out + scan.err)
            newest = self.cairn.shown("latest", course.run.name)
            self.report.check(
                f"the newest good one is {course.good}, not {course.cut}",
                newest.code == 0
                and newest.out.strip().endswith(f"/{course.good}"),
            )
        self.report.check(
            f"the loop of scan and export never failed ({self.mover.rounds}"
            " rounds)",
            not self.mover.failures,
        )
        for failure in self.mover.failures[:3]:
            self.report.say(failure)

    def wipe(self) -> None:
        self.report.chapter(
            "The disk is replaced",
            "Everything in the accelerator directory is deleted, cairn's own"
            " files too. An empty directory might as well be a file system that"
            " is not mounted, so cairn concludes nothing from it until it is"
            " told that this is the new accelerator tier.",
        )
        shutil.rmtree(self.accelerator)
        self.accelerator.mkdir()
        self.report.command("rm -rf acc; mkdir acc", "")
        for arguments in (("scan",), ("latest", FILE_RUN.name, "--restore")):
            answer = self.cairn.shown(*arguments)
            self.report.check(
                f"`cairn {' '.join(arguments)}` refuses the unidentified tier",
                answer.code not in (0, 4),
            )
        self.report.check(
            "and has put nothing there", not any(self.accelerator.iterdir())
        )
        self.init("--replace-accelerator")

    def restore(self, course: Course) -> None:
        run = course.run
        if course is self.courses[0]:
            self.report.chapter(
                "Back in the trainer's hands",
                "`cairn latest --restore` prints the path of the newest good"
                " checkpoint, after bringing it back and comparing every byte.",
            )
        answer = self.cairn.ok("latest", run.name, "--restore")
        course.restore_seconds = answer.seconds
        path = pathlib.Path(answer.out.rstrip("\n"))
        wanted = self.accelerator / run.name / course.good
        self.report.check(
            f"it is {run.name}/{course.good}",
            path.exists() and path.resolve() == wanted,
        )
        self.report.check(
            "names, content, modes and times are as before the wipe",
            wanted.exists() and digest_of(wanted) == course.digest,
        )

    def resume(self) -> None:
        about = f"{FILE_RUN.name} resumes from the path that was printed."
        if len(self.courses) > 1:
            about += (
                f" {DCP_RUN.name} asks `cairn latest` itself, as a job script"
                " would."
            )
        self.report.chapter(
            "Training goes on", about + " The loop exports again beside it."
        )
        for course in self.courses:
            run = course.run
            path = f"acc/{run.name}/{course.good}"
            more = ("--resume", path)
            if run is DCP_RUN:
                more = ("--resume-latest", run.name)
            with self.mover.running():
                trainer = self.start(
                    run, f"acc/{run.name}", f"{run.name}-resumed", *more
                )
                trainer.wait()
            course.after = trainer.log
            losses = losses_of(trainer.log)
            course.equal_steps = self.same_losses(course, losses)
            first, last = min(losses), max(losses)
            step = course.last_step - SAVE_EVERY
            self.report.say(
                f"{run.name}: steps {first} to {last}, loss at the end"
                f" {float.fromhex(losses[last]):.6f} ({losses[last]})"
            )
            self.report.check(
                f"{run.name} went on after step {step} and came to the end",
                (first, last) == (step + 1, STEPS),
            )
            self.report.check(
                f"{run.name}: all {len(losses)} losses after the resume equal"
                " the uninterrupted run's, bit for bit",
                course.equal_steps == len(losses),
            )

    def keep_house(self) -> None:
        self.report.chapter(
            "Keeping house",
            "Verify reads every byte; release frees the fast tier of what is"
            " proven archived; restore brings it back.",
        )
        for course in self.courses:
            older = f"{course.run.name}/{course.good}"
            lies_at = self.accelerator / older
            self.cairn.ok("verify", older, "--tier", "core")
            self.cairn.ok("release", older)
            self.report.check(f"{older} is gone", not lies_at.exists())
            self.cairn.ok("restore", older)
            self.report.check(
                f"{older} is back as it was",
                lies_at.exists() and digest_of(lies_at) == course.digest,
            )
        self.cairn.ok("verify", "--all", "--tier", "accelerator")
        self.cairn.ok("ls")
        self.cairn.ok("status")
        self.report.check(
            f"the loop of scan and export never failed ({self.mover.rounds}"
            " rounds)",
            not self.mover.failures,
        )

    def sum_up(self, seconds: float) -> None:
        self.report.chapter("What happened", "")
        rows = [["", *(c.run.name for c in self.courses)]]

        def row(name: str, *cells: str) -> None:
            rows.append([name, *cells])

        done = self.courses
        row("saved with", *(c.run.what for c in done))
        row("a checkpoint", *(mb(c.whole_bytes) for c in done))
        row(
            "a save, by torch",
            *(
                f"{c.save_seconds:.2f} s, {rate(c.whole_bytes, c.save_seconds)}"
                for c in done
            ),
        )
        row(
            "killed in",
            *(f"{c.cut} at {mb(c.cut_bytes)}" if c.cut else "-" for c in done),
        )
        row("restored", *(c.good or "-" for c in done))
        row(
            "restore, checked",
            *(
                f"{c.restore_seconds:.2f} s,"
                f" {rate(c.whole_bytes, c.restore_seconds)}"
                for c in done
            ),
        )
        row("equal losses after it", *(str(c.equal_steps) for c in done))
        self.report.table(rows)
        self.report.say(
            f"Exported {mb(self.mover.bytes)} in {self.mover.rounds} rounds at"
            f" {rate(self.mover.bytes, self.mover.seconds)} (start of the"
            f" program included), while training ran. {seconds:.0f} s in all."
        )
        self.plot()
        self.report.close(self.work / "report.txt")

    def plot(self) -> None:
        for course in self.courses:
            if not course.before or not course.after:
                continue
            reference = as_floats(losses_of(course.reference))
            real = as_floats(losses_of(course.before, course.after))
            title = f"{course.run.name}: loss by step"
            kill = course.last_step
            self.report.block(plot_text(title, reference, real, kill))
            picture = self.work / f"{course.run.name}.svg"
            picture.write_text(plot_svg(title, reference, real, kill))
            self.report.say(f"As a picture: {picture}")


def as_floats(losses: dict[int, str]) -> dict[int, float]:
    return {step: float.fromhex(loss) for step, loss in losses.items()}


# --- Command line -------------------------------------------------------------


def prepare(work: pathlib.Path) -> None:
    """An empty directory; an earlier demo's is emptied, no other."""
    if work.exists() and any(work.iterdir()):
        if not (work / MARKER).exists():
            raise SystemExit(
                f"demo: {work} is not empty and no demo's; name another --work"
            )
        shutil.rmtree(work)
    (work / "logs").mkdir(parents=True)
    (work / MARKER).touch()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--work",
        type=pathlib.Path,
        default=EXAMPLES.parent / "build" / "demo",
        help="directory for all that is made (default: build/demo)",
    )
    given = parser.parse_args(arguments)
    program = shutil.which(os.environ.get("CAIRN_BIN", "cairn"))
    if not program:
        parser.error("set CAIRN_BIN to the cairn program (`make demo` does)")
    work = given.work.resolve()
    prepare(work)
    # An environment that a person set for other stores is not for this one.
    for name in [n for n in os.environ if n.startswith("CAIRN_")]:
        del os.environ[name]
    os.environ["CAIRN_BIN"] = os.path.abspath(program)
    return Demo(os.environ["CAIRN_BIN"], work).tell()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
