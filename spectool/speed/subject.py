"""From the models a launch is planned for to what the cost model needs; or why it has no figures for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from spectool.drafter.model import ZERO, Drafter
from spectool.planning.fit import Subject
from spectool.planning.models import Model, UnknownError
from spectool.planning.own import Own
from spectool.planning.shapes import verifier_shapes
from spectool.planning.weights import Sized, Tensor, alike
from spectool.speed.costs import Draft, Experts, Target
from spectool.speed.forecast import Case, NotPredictedError
from spectool.speed.machines import machine_names, machine_of

# Not read for every token: looked up by row, or no part of the language model.
_UNREAD = re.compile(r"embed_tokens|vision|visual|audio|^mtp\.|(^|\.)[td]2[td]$|^verifier_|markov_w1")
_EXPERT = ".experts."
_LAYER = re.compile(r"\.layers\.(\d+)\b")
_EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
_WIDTH = 2  # bytes of a 16-bit parameter


def case_of(subject: Subject, gpu: str, ranks: int, own: Own) -> Case:
    """Return what the cost model needs of a launch.

    Raises:
        NotPredictedError: these GPUs or models were never measured in a way that carries over.

    """
    if (own.pipeline_parallel or 1) > 1 or (own.data_parallel or 1) > 1:
        raise NotPredictedError("pipeline and data parallelism were not measured")
    if own.expert_parallel:
        raise NotPredictedError("expert parallelism was not measured")
    machine = machine_of(gpu, ranks)
    if machine is None:
        if gpu not in machine_names():
            raise NotPredictedError(f"no kernel timings of {gpu}; there are some of {', '.join(machine_names())}")
        raise NotPredictedError(f"no all-reduce timings of {ranks} x {gpu}")
    try:
        target = target_of(subject)
    except UnknownError as error:
        raise NotPredictedError(str(error)) from None
    return Case(machine, target, draft_of(subject.drafter, subject.drafter_tensors))


def target_of(subject: Subject) -> Target:
    """Return the verifier's sizes.

    Raises:
        NotPredictedError: it is quantised, or of a kind that was not measured.
        UnknownError: a size is not known.

    """
    model = subject.model
    if "quantization_config" in model.config:
        raise NotPredictedError("quantised verifiers were not measured")
    tensors = subject.tensors
    if tensors is None:
        tensors = [Tensor(name, shape, _WIDTH * prod(shape)) for name, shape in verifier_shapes(model).items()]
    kinds = {kind: count for kind, count in alike(tensors).items() if not _UNREAD.search(kind[0])}
    if any(len(shape) > 1 and nbytes != _WIDTH * prod(shape) for _, shape, nbytes, _ in kinds):
        raise NotPredictedError("a verifier that is not in 16 bits was not measured")
    parameters = sum(prod(kind[1]) * count for kind, count in kinds.items() if _EXPERT not in kind[0])
    routed = sum(prod(kind[1]) * count for kind, count in kinds.items() if _EXPERT in kind[0])
    if not any(kind[0].endswith("lm_head.weight") for kind in kinds):
        parameters += model.count("vocab_size") * model.count("hidden_size")
    if model.text.get("kv_lora_rank") is not None:
        raise NotPredictedError("verifiers with latent attention (MLA) were not measured")
    return Target(
        layers=model.layers,
        hidden=model.count("hidden_size"),
        parameters=parameters,
        cache_bytes=2 * model.layers * model.kv_heads * model.head_dim * _WIDTH,
        experts=_experts(model, tensors, routed) if routed else None,
        hybrid="linear_attention" in (model.text.get("layer_types") or ()),
    )


def draft_of(drafter: Drafter, tensors: Iterable[Sized]) -> Draft:
    """Return the drafter's sizes; an output layer it has from the verifier is read all the same.

    Raises:
        NotPredictedError: its tensors are not known.

    """
    found = [tensor for tensor in tensors if not _UNREAD.search(tensor.name)]
    if not found:
        raise NotPredictedError("the drafter's folder has no weights to count")
    parameters = _count(found)
    sizes = drafter.dimensions
    if not any(tensor.name.endswith("lm_head.weight") for tensor in found):
        parameters += sizes.hidden_size * sizes.draft_vocab_size
    markov = drafter.method == "dspark" and drafter.markov is not None and drafter.markov.kind != ZERO
    return Draft(layers=sizes.num_layers, parameters=parameters, markov=markov)


def _experts(model: Model, tensors: Iterable[Sized], parameters: int) -> Experts:
    count = next((model.text[key] for key in _EXPERT_COUNTS if isinstance(model.text.get(key), int)), 0)
    active = model.count("num_experts_per_tok")
    blocks = {tensor.name.partition(_EXPERT)[0] for tensor in tensors if _EXPERT in tensor.name}
    layers = len({match[1] for block in blocks if not _UNREAD.search(block) and (match := _LAYER.search(block))})
    if not 0 < active <= count or not layers:
        raise UnknownError(f"{model.name}/config.json does not say how many experts there are")
    return Experts(layers=layers, count=count, active=active, parameters=parameters / (layers * count))


def _count(tensors: Iterable[Sized]) -> int:
    return sum(prod(tensor.shape) for tensor in tensors)
