"""Trains a small language model on the CPU; its checkpoints resume exactly.

A byte-level transformer of 1.9 million parameters learns the sources of the
Python standard library, which every machine with Python has. It knows nothing
of cairn (but for --resume-latest, which asks `cairn latest` where to go on): it
saves as training scripts do, in one of two ways,

    OUT/step-000020.pt   one process, plain torch.save straight to the path
    OUT/step-20/         --processes 2: data parallel over gloo, with
                         torch.distributed.checkpoint, each rank its share

and a save that is interrupted leaves there whatever it had written.

Same seed, same steps, same machine: the same losses to the last bit, whether
the run was interrupted or not. Everything a step depends on is either in the
checkpoint (weights, optimizer, average, random state) or follows from the
step's number (batch, learning rate). Losses are logged as hexadecimal floats,
so that two logs can be compared exactly.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import importlib
import json
import math
import os
import pathlib
import subprocess
import sys
import sysconfig
import time
from typing import Any

import torch
from torch import nn
from torch.nn import functional

EXIT_NOTHING = 4  # `cairn latest`: the run has no checkpoint.


@dataclasses.dataclass(frozen=True)
class Shape:
    """The model and what it is fed; a checkpoint fits only its own."""

    width: int = 192
    layers: int = 4
    heads: int = 6
    context: int = 96
    batch: int = 8  # Over all processes together.
    dropout: float = 0.1
    corpus_bytes: int = 2 << 20


@dataclasses.dataclass(frozen=True)
class Options:
    out: pathlib.Path
    log: pathlib.Path
    steps: int
    save_every: int
    seed: int
    processes: int
    resume: pathlib.Path | None


def read_corpus(limit: int) -> bytes:
    """The first `limit` bytes of the standard library's modules, by name."""
    root = pathlib.Path(sysconfig.get_path("stdlib"))
    text = bytearray()
    for path in sorted(root.glob("*.py")):
        text += path.read_bytes()
        if len(text) >= limit:
            return bytes(text[:limit])
    raise SystemExit(f"train: {root} holds only {len(text)} bytes of modules")


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.mlp_norm = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.attention_norm(x))
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in qkv.split(width, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = functional.softmax(scores + mask, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.dropout(self.out(mixed))
        hidden = functional.gelu(self.up(self.mlp_norm(x)))
        return x + self.dropout(self.down(hidden))


class LanguageModel(nn.Module):
    """Bytes in, the next byte's log-odds out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.context = shape.context
        self.token = nn.Embedding(256, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, 256, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        future = torch.full((length, length), -math.inf).triu(1)
        x = self.token(tokens) + self.position(torch.arange(length))
        for block in self.blocks:
            x = block(x, future)
        return self.head(self.norm(x))


class Trainer:
    """Model, optimizer and average of the weights, after `step` steps."""

    def __init__(self, options: Options, rank: int) -> None:
        torch.manual_seed(options.seed)
        self.options = options
        self.rank = rank
        self.shape = Shape()
        text = read_corpus(self.shape.corpus_bytes)
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self.corpus_sha256 = hashlib.sha256(text).hexdigest()
        self.model = LanguageModel(self.shape)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.average = {
            name: value.detach().clone()
            for name, value in self.model.named_parameters()
        }
        self.step = 0
        # The weights begin alike on all ranks; dropout differs.
        torch.manual_seed(options.seed + 1 + rank)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of this step and rank, whatever came before."""
        options, length = self.options, self.shape.context
        order = torch.Generator().manual_seed(
            (options.seed << 40) + self.step * options.processes + self.rank
        )
        starts = torch.randint(
            len(self.text) - length,
            (self.shape.batch // options.processes,),
            generator=order,
        )
        rows = [self.text[s : s + length + 1] for s in starts.tolist()]
        window = torch.stack(rows).long()
        return window[:, :-1], window[:, 1:]

    def rate(self) -> float:
        warm = min(1.0, (self.step + 1) / 10)
        left = 1.0 - self.step / max(self.options.steps, 1)
        return 2e-3 * warm * (0.1 + 0.9 * max(left, 0.0))

    def train_step(self) -> float:
        """One step on all ranks; returns the loss averaged over them."""
        inputs, targets = self.batch()
        logits = self.model(inputs)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        value = self.share_gradients(loss.detach())
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()
        self.optimizer.step()
        for name, parameter in self.model.named_parameters():
            self.average[name].lerp_(parameter.detach(), 0.05)
        self.step += 1
        return value

    def share_gradients(self, loss: torch.Tensor) -> float:
        """Averages gradients and the loss over the ranks, in one message."""
        if self.options.processes == 1:
            return loss.item()
        gradients = [
            p.grad for p in self.model.parameters() if p.grad is not None
        ]
        parts = [loss.reshape(1), *(g.flatten() for g in gradients)]
        message = torch.cat(parts)
        torch.distributed.all_reduce(message)
        message /= self.options.processes
        shared = message[1:].split([g.numel() for g in gradients])
        for gradient, average in zip(gradients, shared, strict=True):
            gradient.copy_(average.view_as(gradient))
        return message[0].item()

    def about(self) -> dict[str, Any]:
        return {
            "shape": dataclasses.asdict(self.shape),
            "corpus_sha256": self.corpus_sha256,
            "processes": self.options.processes,
            "seed": self.options.seed,
            "steps": self.options.steps,
        }

    def check(self, about: dict[str, Any], path: pathlib.Path) -> None:
        """Refuses to go on from a checkpoint of other training."""
        for key, value in self.about().items():
            if about.get(key) != value:
                raise SystemExit(
                    f"train: {path} was trained with {key} = {about.get(key)},"
                    f" not {value}"
                )


# --- One file, as torch.save writes it ---------------------------------------


def save_file(trainer: Trainer) -> pathlib.Path:
    path = trainer.options.out / f"step-{trainer.step:06d}.pt"
    torch.save(
        {
            "step": trainer.step,
            "model": trainer.model.state_dict(),
            "optimizer": trainer.optimizer.state_dict(),
            "average": trainer.average,
            "rng": torch.get_rng_state(),
            "about": trainer.about(),
        },
        path,
    )
    return path


def load_file(trainer: Trainer, path: pathlib.Path) -> None:
    state = torch.load(path, map_location="cpu", weights_only=True)
    trainer.check(state["about"], path)
    trainer.model.load_state_dict(state["model"])
    trainer.optimizer.load_state_dict(state["optimizer"])
    for name, value in state["average"].items():
        trainer.average[name].copy_(value)
    trainer.step = state["step"]
    torch.set_rng_state(state["rng"])


# --- A directory, as torch.distributed.checkpoint writes it -------------------


def distributed_state(trainer: Trainer) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    model, optimizer = get_state_dict(trainer.model, trainer.optimizer)
    return {
        "step": trainer.step,
        "model": model,
        "optimizer": optimizer,
        "average": trainer.average,
        f"rng-{trainer.rank}": torch.get_rng_state(),
        "about": trainer.about(),
    }


def save_distributed(trainer: Trainer) -> pathlib.Path:
    import torch.distributed.checkpoint as dcp

    path = trainer.options.out / f"step-{trainer.step}"
    dcp.save(distributed_state(trainer), checkpoint_id=path)
    return path


def load_distributed(trainer: Trainer, path: pathlib.Path) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_state_dict

    state = distributed_state(trainer)
    dcp.load(state, checkpoint_id=path)
    trainer.check(state["about"], path)
    set_state_dict(
        trainer.model,
        trainer.optimizer,
        model_state_dict=state["model"],
        optim_state_dict=state["optimizer"],
    )
    trainer.step = state["step"]
    torch.set_rng_state(state[f"rng-{trainer.rank}"])


def distributed_missing() -> str:
    """Why this torch cannot do --processes 2; "" if it can."""
    try:
        importlib.import_module("torch.distributed.checkpoint.state_dict")
    except ImportError as error:
        return f"torch {torch.__version__}: {error}"
    if not torch.distributed.is_gloo_available():
        return f"torch {torch.__version__} was built without gloo"
    return ""


# --- The loop -----------------------------------------------------------------


def size_of(path: pathlib.Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def train(options: Options, rank: int = 0) -> None:
    """Runs the steps that are left; rank 0 logs and prints."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    trainer = Trainer(options, rank)
    alone = options.processes == 1
    if options.resume:
        (load_file if alone else load_distributed)(trainer, options.resume)
    if rank == 0:
        parameters = sum(p.numel() for p in trainer.model.parameters())
        print(
            f"train: {parameters / 1e6:.1f} million parameters,"
            f" {options.processes} process(es), from step {trainer.step}"
            + (f" ({options.resume})" if options.resume else ""),
            flush=True,
        )
    with open(options.log if rank == 0 else os.devnull, "a") as log:

        def record(**fields: Any) -> None:
            log.write(json.dumps(fields) + "\n")
            log.flush()

        record(event="start", step=trainer.step, rank=rank)
        while trainer.step < options.steps:
            loss = trainer.train_step()
            step = trainer.step
            record(event="step", step=step, loss=loss.hex())
            if step % options.save_every and step != options.steps:
                continue
            start = time.monotonic()
            path = (save_file if alone else save_distributed)(trainer)
            seconds = time.monotonic() - start
            if rank == 0:
                size = size_of(path)
                record(
                    event="save",
                    step=step,
                    path=str(path),
                    bytes=size,
                    seconds=seconds,
                )
                print(
                    f"train: step {step:4d}  loss {loss:.4f}  saved"
                    f" {path.name} ({size / 1e6:.1f} MB in {seconds:.3f} s)",
                    flush=True,
                )


def train_rank(rank: int, options: Options, port: int) -> None:
    store = torch.distributed.TCPStore("127.0.0.1", port, is_master=False)
    torch.distributed.init_process_group(
        "gloo", store=store, rank=rank, world_size=options.processes
    )
    train(options, rank)
    # Nobody hangs up while another is still talking.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def train_distributed(options: Options) -> None:
    import torch.multiprocessing

    # Loopback, whatever the host's name resolves to. The system picks the port
    # and the store keeps it: no other process can take it in between.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = torch.distributed.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    torch.multiprocessing.spawn(
        train_rank, (options, store.port), nprocs=options.processes
    )


# --- Command line -------------------------------------------------------------


def newest_checkpoint(run: str) -> pathlib.Path | None:
    """Where cairn has, or has just put, the run's newest good checkpoint."""
    cairn = os.environ.get("CAIRN_BIN", "cairn")
    found = subprocess.run(
        [cairn, "latest", run, "--restore"], stdout=subprocess.PIPE, text=True
    )
    if found.returncode == EXIT_NOTHING:
        return None
    if found.returncode:
        raise SystemExit(f"train: cairn latest {run}: see the message above")
    return pathlib.Path(found.stdout.rstrip("\n"))


def parse_options(arguments: list[str]) -> Options:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--out", type=pathlib.Path, required=True, help="directory of the run"
    )
    parser.add_argument(
        "--log",
        type=pathlib.Path,
        required=True,
        help="JSON Lines, a line for each step and each save; appended to",
    )
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    resume = parser.add_mutually_exclusive_group()
    resume.add_argument(
        "--resume", type=pathlib.Path, metavar="PATH", help="a checkpoint"
    )
    resume.add_argument(
        "--resume-latest",
        metavar="RUN",
        help="go on from what `cairn latest RUN --restore` prints, from the"
        " beginning if the run has none; $CAIRN_BIN names the program",
    )
    given = parser.parse_args(arguments)
    if given.steps < 1 or given.save_every < 1:
        parser.error("--steps and --save-every must be at least 1")
    if given.resume_latest is not None:
        given.resume = newest_checkpoint(given.resume_latest)
    return Options(
        out=given.out,
        log=given.log,
        steps=given.steps,
        save_every=given.save_every,
        seed=given.seed,
        processes=given.processes,
        resume=given.resume,
    )


def main(arguments: list[str]) -> int:
    options = parse_options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.processes == 1:
        train(options)
        return 0
    missing = distributed_missing()
    if missing:
        print(f"train: {missing}", file=sys.stderr)
        return 1
    train_distributed(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
