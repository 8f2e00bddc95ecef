"""Makes the sample files in tests/compat/data/format.

They are what the real frameworks write, and are kept in the repository so that
the C++ tests need neither Python nor torch. Run once, and again only to add the
files of a new framework version:

    python tools/make_format_samples.py tests/compat/data/format

Needs torch, numpy and safetensors. Checkpoints carry random ids, so a second
run does not reproduce the same bytes; the tests rely on none of them.

    torch_zip.pt          torch.save of nested plain data and tensors
    torch_buffer.pt       the same through a file object (prefix "archive")
    torch_legacy.pt       torch.save before 1.6 (three pickles, then storages)
    lightning.ckpt        the top level of a Lightning checkpoint
    dcp/                  torch.distributed.checkpoint, one rank
    model.safetensors     several dtypes, a scalar, an empty tensor, metadata
    sharded/              two shards and their index, as Hugging Face's
    arrays.npz            numpy.savez
"""

import json
import pathlib
import sys
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save


def training_state() -> dict[str, Any]:
    shared = torch.arange(6, dtype=torch.float32)
    return {
        "step": 1000,
        "epoch": 3,
        "lr": 1e-3,
        "name": "modèle",
        "done": False,
        "none": None,
        "big": 1 << 80,
        "shape": (2, 3),
        "model": {
            "weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
            "bias": torch.zeros(4, dtype=torch.bfloat16),
            "tied": shared,
            "tied_view": shared[2:],
            "empty": torch.empty(0),
        },
        "rng": torch.ones(5, dtype=torch.uint8),
    }


def lightning_checkpoint() -> dict[str, Any]:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return {
        "epoch": 7,
        "global_step": 70000,
        "pytorch-lightning_version": "2.6.2",
        "state_dict": model.state_dict(),
        "loops": {"fit_loop": {"state_dict": {}, "epoch": 99}},
        "callbacks": {},
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [],
    }


def save_dcp(directory: pathlib.Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": 1000,
        "extra": {"name": "run", "rng": torch.ones(5, dtype=torch.uint8)},
    }
    dcp_save(state, checkpoint_id=directory, no_dist=True)


def save_sharded(directory: pathlib.Path) -> None:
    directory.mkdir(exist_ok=True)
    shards = {
        "model-00001-of-00002.safetensors": {"a.weight": torch.ones(4, 2)},
        "model-00002-of-00002.safetensors": {
            "b.bias": torch.zeros(3),
            "b.weight": torch.ones(3, 3),
        },
    }
    weight_map = {}
    total = 0
    for name, tensors in shards.items():
        save_file(tensors, directory / name, metadata={"format": "pt"})
        for tensor_name, tensor in tensors.items():
            weight_map[tensor_name] = name
            total += tensor.numel() * tensor.element_size()
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    (directory / "model.safetensors.index.json").write_text(text)


def main() -> None:
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    torch.save(training_state(), target / "torch_zip.pt")
    with open(target / "torch_buffer.pt", "wb") as out:
        torch.save(training_state(), out)
    torch.save(
        training_state(),
        target / "torch_legacy.pt",
        _use_new_zipfile_serialization=False,
    )
    torch.save(lightning_checkpoint(), target / "lightning.ckpt")
    save_dcp(target / "dcp")
    save_file(
        {
            "weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
            "bias": torch.zeros(4, dtype=torch.bfloat16),
            "flags": torch.ones(3, dtype=torch.bool),
            "scalar": torch.tensor(1.5),
            "empty": torch.empty(0, 4, dtype=torch.float16),
            "fp8": torch.zeros(5, dtype=torch.float8_e4m3fn),
        },
        target / "model.safetensors",
        metadata={"format": "pt", "step": "1000"},
    )
    save_sharded(target / "sharded")
    np.savez(target / "arrays.npz", a=np.arange(5), b=np.ones((2, 2)))


if __name__ == "__main__":
    main()
