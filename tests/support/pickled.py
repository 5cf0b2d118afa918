"""Make folders with weights in PyTorch's own format and open them, in one process with torch.

    PYTHONPATH=CHECKOUT python pickled.py SAFETENSORS_FOLDER ROOT > RESULTS.json

For every case: the digest of each tensor's bytes, or the error. Also what a conversion of a large file costs in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from spectool import api
from spectool.checkpoint.folder import open_checkpoint
from spectool.errors import SpectoolError

State = dict[str, Any]


class Runs:
    """An object whose unpickling leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.trace}",)


def plain(state: State, folder: Path) -> None:
    torch.save(state, folder / "pytorch_model.bin")


def single(state: State, folder: Path) -> None:
    torch.save(state, folder / "drafter.pt")
    torch.save({"step": 3}, folder / "training_state.rank0.pt")
    torch.save({}, folder / "optimizer.pt")


def two(state: State, folder: Path) -> None:
    torch.save(state, folder / "a.pt")
    torch.save(state, folder / "b.pt")


def sharded(state: State, folder: Path) -> None:
    names = sorted(state)
    parts = {"pytorch_model-00001-of-00002.bin": names[::2], "pytorch_model-00002-of-00002.bin": names[1::2]}
    for file, chosen in parts.items():
        torch.save({name: state[name] for name in chosen}, folder / file)
    index = {"metadata": {}, "weight_map": {name: file for file, chosen in parts.items() for name in chosen}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))


def sharded_wrongly(state: State, folder: Path) -> None:
    sharded(state, folder)
    path = folder / "pytorch_model.bin.index.json"
    path.write_text(path.read_text().replace("00002-of-00002.bin", "00001-of-00002.bin"))


def views(state: State, folder: Path) -> None:
    """Tensors that are pieces of one storage, as after tying or slicing."""
    whole = torch.cat([tensor.flatten() for tensor in state.values() if tensor.dtype == torch.bfloat16])
    begin, cut = 0, dict(state)
    for name, tensor in state.items():
        if tensor.dtype == torch.bfloat16:
            cut[name] = whole[begin : begin + tensor.numel()].view(tensor.shape)
            begin += tensor.numel()
    plain({name: torch.nn.Parameter(item) if item.is_floating_point() else item for name, item in cut.items()}, folder)


def transposed(state: State, folder: Path) -> None:
    plain({**state, "fc.weight": state["fc.weight"].T.contiguous().T}, folder)


def training(state: State, folder: Path) -> None:
    plain({**state, "epoch": 3}, folder)


def nested(state: State, folder: Path) -> None:
    plain({"model": state}, folder)


def hostile(state: State, folder: Path) -> None:
    plain({**state, "extra": Runs(folder / "trace")}, folder)


def old(state: State, folder: Path) -> None:
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def hostile_old(state: State, folder: Path) -> None:
    hostile_state = {**state, "extra": Runs(folder / "trace")}
    torch.save(hostile_state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)


def cut_off(state: State, folder: Path) -> None:
    plain(state, folder)
    path = folder / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:-4000])


def repacked(state: State, folder: Path, change: Callable[[str, bytes], bytes] | None, method: int) -> None:
    plain(state, folder)
    path = folder / "pytorch_model.bin"
    with zipfile.ZipFile(path) as archive:
        parts = [(item.filename, archive.read(item)) for item in archive.infolist()]
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in parts:
            archive.writestr(name, change(name, data) if change else data)


def compressed(state: State, folder: Path) -> None:
    repacked(state, folder, None, zipfile.ZIP_DEFLATED)


def big_endian(state: State, folder: Path) -> None:
    repacked(state, folder, lambda name, data: b"big" if name.endswith("byteorder") else data, zipfile.ZIP_STORED)


def other_archive(state: State, folder: Path) -> None:
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
        archive.writestr("readme.txt", "no weights")


def short_record(state: State, folder: Path) -> None:
    """The first storage has fewer bytes than the tensor that is said to lie in it."""
    repacked(state, folder, lambda name, data: data[:16] if name.endswith("data/0") else data, zipfile.ZIP_STORED)


CASES = (plain, single, two, sharded, sharded_wrongly, views, transposed, training, nested, hostile, old, hostile_old)
CASES += (cut_off, compressed, big_endian, other_archive, short_record)


def opened(folder: Path) -> dict[str, Any]:
    try:
        found = open_checkpoint(folder)
        digests = {name: hashlib.sha256(found.read(name)).hexdigest() for name in found.tensors}
    except SpectoolError as error:
        return {"error": error.message, "hint": error.hint, "exit": error.exit_code}
    described = {name: [item.dtype, list(item.shape), digests[name]] for name, item in found.tensors.items()}
    return {"tensors": described, "side_files": list(found.side_files)}


def memory(source: Path, root: Path) -> dict[str, int]:
    """Convert the folder with an embedding of 64 MiB more than it has, and say how far memory grew."""
    folder = root / "large"
    folder.mkdir()
    config = json.loads((source / "config.json").read_text())
    state = load_file(source / "model.safetensors")
    state["embed_tokens.weight"] = torch.zeros(2**25 // state["norm.weight"].numel(), len(state["norm.weight"]))
    state["embed_tokens.weight"] = state["embed_tokens.weight"].bfloat16()
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "config.json").write_text(json.dumps(config))
    size = (folder / "pytorch_model.bin").stat().st_size
    del state
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew here
    before = resident()
    open_checkpoint(folder)
    return {"grown": resident() - before, "size": size}


def nemo(source: Path, root: Path) -> dict[str, str]:
    """A NeMo run with the vocabulary map among the weights, and one with it in eagle_meta.pt above their folder."""
    verifier = shutil.copytree(source.parent / "verifier", root / "verifier")
    deep = json.loads((verifier / "config.json").read_text()) | {"num_hidden_layers": 8}
    (verifier / "config.json").write_text(json.dumps(deep))
    config = json.loads((source / "config.json").read_text())
    for key in ("eagle_config", "ptd_token_id"):
        del config[key]
    config |= {"architectures": ["LlamaEagle3DraftModel"], "mask_token_id": 511, "num_depths": 5}
    config |= {"draft_vocab_size": 256, "parallel_drafting": True}
    state = load_file(source / "model.safetensors")
    state["lm_head.weight"] = state["lm_head.weight"][1::2].contiguous()
    top = ("lm_head.weight", "mask_hidden")
    state = {name if name in top else f"model.{name.replace('midlayer', 'layers.0')}": t for name, t in state.items()}
    chosen = torch.arange(1, 512, 2)
    mask = torch.zeros(512, dtype=torch.bool)
    mask[chosen] = True
    beside = {"global_step": 7, "epoch": 1, "selected_token_ids": chosen, "selected_token_mask": mask}
    within = {"d2t": chosen - torch.arange(256), "t2d": mask}
    digests = {}
    for name, more in (("after", within), ("before", {}), ("neither", {})):
        folder = root / name / "epoch_1_step_7" / "model" / "consolidated"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config))
        save_file({**state, **more}, folder / "model.safetensors", {"format": "pt"})
        if name == "before":
            torch.save(beside, folder.parents[1] / "eagle_meta.pt")
        try:
            plan = api.plan_conversion(str(folder), verifier=str(verifier), settings={"verifier": "org/verifier"})
            api.convert(plan, root / f"{name}-out")
        except SpectoolError as error:
            digests[name] = error.message
            continue
        files = [(root / f"{name}-out" / file).read_bytes() for file in ("config.json", "model.safetensors")]
        digests[name] = hashlib.sha256(b"".join(files)).hexdigest()
    return digests


def mimo(pairs: Path, root: Path) -> dict[str, Any]:
    """A mask row beside the weights, as a tensor and as an object: which rows of the output's embedding differ."""
    source = pairs / "dflash-zlab"
    row = torch.linspace(-1, 1, 128).bfloat16()
    contents = {"row": row, "object": {"mask_token_id": 511, "embedding": row}}
    contents |= {"other": {"mask_token_id": 510, "embedding": row}}
    found: dict[str, Any] = {}
    embedding = load_file(pairs / "verifier" / "model.safetensors")["model.embed_tokens.weight"]
    for name, content in contents.items():
        folder = shutil.copytree(source, root / name)
        torch.save(content, folder / "mask_embedding.pt")
        try:
            settings = {"verifier": "org/verifier"}
            plan = api.plan_conversion(str(folder), verifier=str(pairs / "verifier"), settings=settings)
            api.convert(plan, root / f"{name}-out")
        except SpectoolError as error:
            found[name] = error.message
            continue
        shipped = load_file(root / f"{name}-out" / "model.safetensors")["embed_tokens.weight"]
        differ = (shipped != embedding).any(1).nonzero().flatten().tolist()
        found[name] = [differ, bool(shipped[511].equal(row))]
    return found


def resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def main(source: Path, root: Path) -> None:
    state = load_file(source / "model.safetensors")
    results: dict[str, Any] = {}
    for case in CASES:
        folder = root / case.__name__
        folder.mkdir(parents=True)
        shutil.copy(source / "config.json", folder)
        case(state, folder)
        results[case.__name__] = opened(folder) | {"ran": (folder / "trace").exists()}
    for name in ("plain", "sharded"):
        settings = {"verifier": "org/verifier", "speculative_tokens": 5}
        plan = api.plan_conversion(str(root / name), verifier=str(source.parent / "verifier"), settings=settings)
        api.convert(plan, root / f"{name}-out")
    results["mimo"] = mimo(source.parent, root / "mimo")
    results["nemo"] = nemo(source, root / "nemo")
    results["memory"] = memory(source, root)
    results["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
