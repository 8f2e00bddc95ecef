"""Checkpoints as the frameworks write them, for the tests of recognition.

Where a framework is one of PyTorch, safetensors or numpy, the real library
writes the files. For the others (DeepSpeed, Megatron, Lightning, Hugging Face,
accelerate, Orbax, TensorFlow) the names, the markers and their order are
theirs, and what is in the files is of the right format: torch.save, JSON,
safetensors, a TensorFlow table.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import struct
import warnings
from collections.abc import Callable
from typing import Any

DCP = "torch.distributed.checkpoint.state_dict"


@dataclasses.dataclass(frozen=True)
class Layout:
    """One checkpoint, as `cairn scan` should see it."""

    run: str
    name: str
    framework: str
    step: int | None
    build: Callable[[pathlib.Path], None]  # Makes it in the run's directory.
    # Raises if the checkpoint at this path is not what `build` made.
    load: Callable[[pathlib.Path], None] | None = None
    files: tuple[str, ...] = ()  # Of the run; empty: the directory `name`.
    epoch: int | None = None
    needs: tuple[str, ...] = ("torch",)
    # Pointer file in the run, and what has to be in it.
    pointers: tuple[tuple[str, str], ...] = ()

    @property
    def path(self) -> str:
        return f"{self.run}/{self.name}"

    def missing(self) -> str:
        """The first module that is not to be had; "" if all are."""
        for module in self.needs:
            try:
                importlib.import_module(module)
            except ImportError:
                return module
        return ""


# --- Content ------------------------------------------------------------------


def training_state(seed: int = 0) -> dict[str, Any]:
    import torch

    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 16)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng": torch.get_rng_state(),
        "step": 100,
        "name": "modèle",
    }


def same(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor):
        return bool(
            one.dtype == other.dtype
            and one.shape == other.shape
            and torch.equal(one, other)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def save_torch(path: pathlib.Path, content: Any, **options: Any) -> None:
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path, **options)


def load_torch(path: pathlib.Path) -> Any:
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def save_json(path: pathlib.Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def save_safetensors(path: pathlib.Path, **tensors: Any) -> None:
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, path, metadata={"format": "pt"})


def save_dcp(path: pathlib.Path, seed: int = 0) -> None:
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # That there is no process group.
        dcp.save(training_state(seed), checkpoint_id=path)


def load_dcp(path: pathlib.Path) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    wanted, state = training_state(), training_state(seed=1)
    state["rng"] = torch.zeros_like(state["rng"])
    assert not same(wanted, state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(state, storage_reader=dcp.FileSystemReader(path))
    assert same(wanted, state)


# --- torch.save ---------------------------------------------------------------


def build_torch(run: pathlib.Path) -> None:
    save_torch(run / "step-000100.pt", training_state())


def load_state(path: pathlib.Path) -> None:
    assert same(load_torch(path), training_state())


def build_torch_legacy(run: pathlib.Path) -> None:
    save_torch(
        run / "model_step_200.pth",
        training_state(),
        _use_new_zipfile_serialization=False,
    )


# --- torch.distributed.checkpoint ---------------------------------------------


def build_dcp(run: pathlib.Path) -> None:
    save_dcp(run / "ckpt-7")


def save_rank(rank: int, path: pathlib.Path, port: int) -> None:
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp

    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    dcp.save(training_state(), checkpoint_id=path)
    dist.destroy_process_group()


def build_dcp_two(run: pathlib.Path) -> None:
    import torch.distributed as dist
    import torch.multiprocessing as mp

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = dist.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    path = run / "step-20"
    mp.spawn(save_rank, (path, store.port), nprocs=2)
    assert (path / "__1_0.distcp").exists()  # Each rank wrote its share.


# --- safetensors, numpy -------------------------------------------------------


def build_safetensors(run: pathlib.Path) -> None:
    import torch

    save_safetensors(
        run / "model-300.safetensors",
        weight=torch.arange(12.0).reshape(3, 4),
        half=torch.ones(5, dtype=torch.bfloat16),
        empty=torch.empty(0),
    )


def load_safetensors(path: pathlib.Path) -> None:
    from safetensors.torch import load_file

    tensors = load_file(path)
    assert sorted(tensors) == ["empty", "half", "weight"]
    assert tensors["weight"].sum().item() == 66.0


def build_sharded(run: pathlib.Path) -> None:
    import torch

    name = "model-0000{}-of-00002.safetensors"
    folder = run / "weights-3"
    save_safetensors(folder / name.format(1), a=torch.ones(6))
    save_safetensors(folder / name.format(2), b=torch.zeros(2, 2))
    save_json(
        folder / "model.safetensors.index.json",
        {
            "metadata": {"total_size": 40},
            "weight_map": {"a": name.format(1), "b": name.format(2)},
        },
    )


def load_sharded(path: pathlib.Path) -> None:
    from safetensors.torch import load_file

    index = json.loads((path / "model.safetensors.index.json").read_text())
    for tensor, shard in index["weight_map"].items():
        assert tensor in load_file(path / shard)


def build_numpy(run: pathlib.Path) -> None:
    import numpy as np

    folder = run / "step_5"
    folder.mkdir(parents=True)
    np.savez(folder / "arrays.npz", a=np.arange(10), b=np.eye(3))
    np.save(folder / "c.npy", np.ones(4))
    (folder / "DONE").touch()


def load_numpy(path: pathlib.Path) -> None:
    import numpy as np

    with np.load(path / "arrays.npz") as arrays:
        assert arrays["a"].sum() == 45 and arrays["b"].trace() == 3
    assert np.load(path / "c.npy").sum() == 4


# --- Hugging Face Trainer, accelerate -----------------------------------------


def build_huggingface(run: pathlib.Path) -> None:
    import torch

    state = training_state()
    (run / "shared").mkdir(parents=True, exist_ok=True)
    (run / "shared" / "tokenizer.json").write_text("{}")
    folder = run / "checkpoint-50"
    save_json(folder / "config.json", {"model_type": "llama"})
    save_safetensors(folder / "model.safetensors", weight=torch.ones(64))
    save_torch(folder / "training_args.bin", {"learning_rate": 1e-4})
    save_torch(folder / "optimizer.pt", state["optimizer"])
    save_torch(folder / "scheduler.pt", {"last_epoch": 50})
    save_torch(folder / "rng_state.pth", {"cpu": state["rng"]})
    # What people have beside it: a link, an empty file, a script, a name that
    # is no UTF-8, a directory with nothing in it.
    (folder / "tokenizer.json").symlink_to("../shared/tokenizer.json")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "merges.txt").touch()
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o750)
    with open(os.fsencode(folder) + b"/notes-\xff%41.txt", "wb") as file:
        file.write(b"bytes")
    (folder / "logs").mkdir(mode=0o700)
    save_json(folder / "trainer_state.json", {"global_step": 50, "epoch": 1.5})
    os.utime(folder / "config.json", ns=(1, 981173045_123456789))


def load_huggingface(path: pathlib.Path) -> None:
    assert same(
        load_torch(path / "optimizer.pt"), training_state()["optimizer"]
    )
    state = json.loads((path / "trainer_state.json").read_text())
    assert state["global_step"] == 50


def build_accelerate(run: pathlib.Path) -> None:
    import torch

    folder = run / "checkpoint_4"
    save_safetensors(folder / "model.safetensors", weight=torch.ones(8))
    save_torch(folder / "optimizer.bin", training_state()["optimizer"])
    save_torch(folder / "scheduler.bin", {"last_epoch": 4})
    for rank in range(2):
        save_torch(
            folder / f"random_states_{rank}.pkl",
            {"step": 4, "torch_manual_seed": torch.get_rng_state()},
        )


# --- DeepSpeed, Megatron ------------------------------------------------------


def build_deepspeed_step(run: pathlib.Path, step: int) -> None:
    folder = run / f"global_step{step}"
    state = training_state()
    common = {"dp_world_size": 2, "mp_world_size": 1, "global_steps": step}
    save_torch(
        folder / "mp_rank_00_model_states.pt",
        {"module": state["model"], **common},
    )
    for rank in range(2):
        save_torch(
            folder / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt",
            {"optimizer_state_dict": state["optimizer"], "zero_stage": 2},
        )


def build_deepspeed(run: pathlib.Path) -> None:
    # As text, global_step900 comes after global_step1000.
    build_deepspeed_step(run, 1000)
    build_deepspeed_step(run, 900)
    (run / "latest").write_text("global_step1000")
    (run / "zero_to_fp32.py").write_text("# script\n")


def load_deepspeed(path: pathlib.Path) -> None:
    tag = (path.parent / "latest").read_text().strip()
    assert path.parent / tag == path
    state = load_torch(path / "mp_rank_00_model_states.pt")
    assert state["global_steps"] == 1000
    assert same(state["module"], training_state()["model"])


def build_megatron(run: pathlib.Path) -> None:
    folder = run / "iter_0000100"
    save_dcp(folder)
    save_torch(folder / "common.pt", {"iteration": 100})
    save_json(
        folder / "metadata.json",
        {
            "sharded_backend": "torch_dist",
            "sharded_backend_version": 1,
            "common_backend": "torch",
            "common_backend_version": 1,
        },
    )
    (run / "latest_checkpointed_iteration.txt").write_text("100")


def load_megatron(path: pathlib.Path) -> None:
    load_dcp(path)
    assert load_torch(path / "common.pt") == {"iteration": 100}


def build_megatron_legacy(run: pathlib.Path) -> None:
    for rank in range(2):
        save_torch(
            run / "iter_0000200" / f"mp_rank_0{rank}" / "model_optim_rng.pt",
            {"iteration": 200, "model": training_state()["model"]},
        )
    (run / "latest_checkpointed_iteration.txt").write_text("200")


# --- Lightning ----------------------------------------------------------------


def lightning_state() -> dict[str, Any]:
    state = training_state()
    return {
        "epoch": 3,
        "global_step": 400,
        "pytorch-lightning_version": "2.6.2",
        "state_dict": state["model"],
        "loops": {},
        "callbacks": {},
        "optimizer_states": [state["optimizer"]],
        "lr_schedulers": [],
    }


def build_lightning(run: pathlib.Path) -> None:
    save_torch(run / "epoch=3-step=400.ckpt", lightning_state())


def load_lightning(path: pathlib.Path) -> None:
    assert same(load_torch(path), lightning_state())


def build_lightning_sharded(run: pathlib.Path) -> None:
    folder = run / "epoch=3-step=400.ckpt"
    save_dcp(folder)
    save_torch(folder / "meta.pt", {"epoch": 3, "global_step": 400})


# --- Orbax, TensorFlow --------------------------------------------------------


def build_orbax(run: pathlib.Path) -> None:
    folder = run / "5"
    (folder / "default" / "d").mkdir(parents=True)
    (folder / "default" / "ocdbt.process_0" / "d").mkdir(parents=True)
    (folder / "default" / "d" / "0f3a9c").write_bytes(os.urandom(4096))
    (folder / "default" / "manifest.ocdbt").write_bytes(b"\x0c\xdb\x3a\x2a")
    save_json(folder / "default" / "_METADATA", {"tree_metadata": {}})
    save_json(
        folder / "_CHECKPOINT_METADATA",
        {
            "item_handlers": {"default": "PyTreeCheckpointHandler"},
            "init_timestamp_nsecs": 1_700_000_000_000_000_000,
            "commit_timestamp_nsecs": 1_700_000_001_000_000_000,
        },
    )


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def table(entries: list[tuple[bytes, bytes]]) -> bytes:
    """A table of one data block, as TensorFlow's BundleWriter makes it."""
    out = bytearray()

    def block(pairs: list[tuple[bytes, bytes]]) -> bytes:
        body = bytearray()
        for key, value in pairs:  # No prefix is shared; one restart point.
            body += varint(0) + varint(len(key)) + varint(len(value))
            body += key + value
        body += struct.pack("<II", 0, 1) + b"\0"
        handle = varint(len(out)) + varint(len(body) - 1)
        out.extend(body + struct.pack("<I", masked_crc32c(bytes(body))))
        return handle

    data = block(entries)
    meta = block([])
    index = block([(entries[-1][0] + b"\0", data)])
    footer = (meta + index).ljust(40, b"\0")
    return bytes(out) + footer + struct.pack("<Q", 0xDB4775248B80FB57)


def save_bundle(run: pathlib.Path, prefix: str) -> None:
    """One tensor `w` of four floats, in one shard."""
    run.mkdir(parents=True, exist_ok=True)
    data = struct.pack("<4f", 1, 2, 3, 4)
    header = b"\x08\x01\x1a\x02\x08\x01"  # One shard, little-endian, version 1.
    entry = (  # Float, shape [4], 16 bytes, their checksum.
        b"\x08\x01\x12\x04\x12\x02\x08\x04\x28\x10"
        + b"\x35"
        + struct.pack("<I", masked_crc32c(data))
    )
    (run / f"{prefix}.data-00000-of-00001").write_bytes(data)
    (run / f"{prefix}.index").write_bytes(table([(b"", header), (b"w", entry)]))


def build_tensorflow(run: pathlib.Path) -> None:
    save_bundle(run, "ckpt-7")
    (run / "checkpoint").write_text(
        'model_checkpoint_path: "ckpt-7"\n'
        'all_model_checkpoint_paths: "ckpt-7"\n'
    )


def build_saved_model(run: pathlib.Path) -> None:
    folder = run / "1"
    save_bundle(folder / "variables", "variables")
    (folder / "assets").mkdir()
    (folder / "fingerprint.pb").write_bytes(b"\x08\x01")
    (folder / "saved_model.pb").write_bytes(b"\x08\x01\x12\x00")


# --- All of them --------------------------------------------------------------

BUNDLE_FILES = ("ckpt-7.data-00000-of-00001", "ckpt-7.index")
PLAIN = ()

LAYOUTS = (
    Layout(
        "torch", "step-000100.pt", "torch", 100, build_torch, load_state,
        files=("step-000100.pt",),
    ),
    Layout(
        "legacy", "model_step_200.pth", "torch", 200, build_torch_legacy,
        load_state, files=("model_step_200.pth",),
    ),
    Layout("dcp-one", "ckpt-7", "dcp", 7, build_dcp, load_dcp, needs=(DCP,)),
    Layout(
        "titan", "step-20", "torchtitan", 20, build_dcp_two, load_dcp,
        needs=(DCP,),
    ),
    Layout(
        "single", "model-300.safetensors", "safetensors", 300,
        build_safetensors, load_safetensors,
        files=("model-300.safetensors",), needs=("torch", "safetensors"),
    ),
    Layout(
        "sharded", "weights-3", "safetensors", None, build_sharded,
        load_sharded, needs=("torch", "safetensors"),
    ),
    Layout(
        "numpy", "step_5", "generic", 5, build_numpy, load_numpy,
        needs=("numpy",),
    ),
    Layout(
        "hf/output", "checkpoint-50", "huggingface", 50, build_huggingface,
        load_huggingface, needs=("torch", "safetensors"),
    ),
    Layout(
        "accelerate/checkpoints", "checkpoint_4", "accelerate", None,
        build_accelerate, needs=("torch", "safetensors"),
    ),
    Layout(
        "deepspeed", "global_step1000", "deepspeed", 1000, build_deepspeed,
        load_deepspeed, pointers=(("latest", "global_step1000"),),
    ),
    Layout(
        "megatron", "iter_0000100", "megatron-dist", 100, build_megatron,
        load_megatron, needs=(DCP,),
        pointers=(("latest_checkpointed_iteration.txt", "100"),),
    ),
    Layout(
        "megatron-old", "iter_0000200", "megatron-legacy", 200,
        build_megatron_legacy,
        pointers=(("latest_checkpointed_iteration.txt", "200"),),
    ),
    Layout(
        "lightning/version_0/checkpoints", "epoch=3-step=400.ckpt",
        "lightning", 400, build_lightning, load_lightning,
        files=("epoch=3-step=400.ckpt",), epoch=3,
    ),
    Layout(
        "lightning-fsdp", "epoch=3-step=400.ckpt", "lightning-sharded", 400,
        build_lightning_sharded, load_dcp, epoch=3, needs=(DCP,),
    ),
    Layout("orbax", "5", "orbax", 5, build_orbax, needs=PLAIN),
    Layout(
        "tf", "ckpt-7", "tensorflow", 7, build_tensorflow,
        files=BUNDLE_FILES, needs=PLAIN,
        pointers=(("checkpoint", 'model_checkpoint_path: "ckpt-7"'),),
    ),
    Layout(
        "serving", "1", "tensorflow-savedmodel", 1, build_saved_model,
        needs=PLAIN,
    ),
)  # fmt: skip


# --- The same, interrupted or damaged -----------------------------------------


@dataclasses.dataclass(frozen=True)
class Broken:
    """What is left of a checkpoint that must not count."""

    run: str
    name: str
    like: str  # Run of the layout that it would have been.
    spoil: Callable[[pathlib.Path], None]  # Given the run's directory.


def cut(path: pathlib.Path, share: float = 0.6) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def unlink(*names: str) -> Callable[[pathlib.Path], None]:
    def spoil(run: pathlib.Path) -> None:
        for name in names:
            (run / name).unlink()

    return spoil


def cutting(name: str, share: float = 0.6) -> Callable[[pathlib.Path], None]:
    return lambda run: cut(run / name, share)


def spoil_dcp(run: pathlib.Path) -> None:
    (run / "ckpt-7" / ".metadata").unlink()
    (run / "ckpt-7").rename(run / "step-20")


def spoil_orbax(run: pathlib.Path) -> None:
    (run / "5").rename(run / "5.orbax-checkpoint-tmp-1700000000")


def spoil_deepspeed(run: pathlib.Path) -> None:
    for step in (900, 1000):
        folder = run / f"global_step{step}"
        (folder / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()


BROKEN = (
    Broken("cut-torch", "step-000100.pt", "torch", cutting("step-000100.pt")),
    # Only the last bytes are missing.
    Broken(
        "cut-end", "step-000100.pt", "torch", cutting("step-000100.pt", 0.9999)
    ),
    Broken(
        "cut-safetensors", "model-300.safetensors", "single",
        cutting("model-300.safetensors"),
    ),
    Broken(
        "no-metadata", "step-20", "dcp-one",
        spoil_dcp,
    ),
    Broken("cut-share", "ckpt-7", "dcp-one", cutting("ckpt-7/__0_0.distcp")),
    Broken(
        "lost-share", "ckpt-7", "dcp-one", unlink("ckpt-7/__0_0.distcp")
    ),
    Broken(
        "lost-shard", "weights-3", "sharded",
        unlink("weights-3/model-00002-of-00002.safetensors"),
    ),
    Broken(
        "no-trainer-state", "checkpoint-50", "hf/output",
        unlink("checkpoint-50/trainer_state.json"),
    ),
    Broken(
        "cut-optimizer", "checkpoint-50", "hf/output",
        cutting("checkpoint-50/optimizer.pt"),
    ),
    Broken("lost-rank", "global_step1000", "deepspeed", spoil_deepspeed),
    Broken(
        "no-metadata-json", "iter_0000100", "megatron",
        unlink("iter_0000100/metadata.json"),
    ),
    Broken(
        "no-meta-pt", "epoch=3-step=400.ckpt", "lightning-fsdp",
        unlink("epoch=3-step=400.ckpt/meta.pt"),
    ),
    Broken("orbax-tmp", "5", "orbax", spoil_orbax),
    Broken(
        "no-data", "ckpt-7", "tf", unlink("ckpt-7.data-00000-of-00001")
    ),
    Broken("no-pb", "1", "serving", unlink("1/saved_model.pb")),
)  # fmt: skip


def layout_of(run: str) -> Layout:
    return next(layout for layout in LAYOUTS if layout.run == run)


def age(path: pathlib.Path) -> None:
    """Makes it look old, so that no verdict is for its freshness alone."""
    for folder, folders, files in os.walk(os.fsencode(path)):
        for name in folders + files:
            with contextlib.suppress(FileNotFoundError):
                os.utime(
                    os.path.join(folder, name),
                    (1_600_000_000, 1_600_000_000),
                    follow_symlinks=False,
                )
