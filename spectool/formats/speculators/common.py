"""What the `config.json` files of all methods share: who wrote them, for which verifier, and how many tokens."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from spectool.formats.speculators.fields import NotNegative, Part, Size, Tokens, key


class ProposalMethod(Part):
    """How the drafter proposes tokens. vLLM reads the first entry only."""

    proposal_type: str = key("`greedy`, the only kind.", default="greedy", read=None, examples=["greedy"])
    speculative_tokens: Tokens = key(
        "K: tokens proposed in one pass. DFlash: block_size - 1; DSpark: block_size if sample_from_anchor is true, "
        "else one less; P-EAGLE: the depths it was trained for.",
        examples=[7],
    )
    verifier_accept_k: Size = key("Accept a token among the verifier's best k.", default=1, read=None)
    accept_tolerance: NotNegative = key("Largest distance in log-likelihood then.", default=0.0, read=None)


class Verifier(Part):
    """The model the drafter was trained for."""

    name_or_path: str = key(
        "Hub id `org/name`. A local path works only with an explicit `--speculative-config`: `vllm serve DRAFTER` "
        "alone (0.33) refuses it.",
        examples=["Qwen/Qwen3-8B"],
    )
    architectures: list[str] = key(
        "The verifier's architectures.", default=[], read=None, examples=[["Qwen3ForCausalLM"]]
    )


class SpeculatorsPart(Part):
    """The key `speculators_config`: algorithm, proposals, verifier."""

    algorithm: str = key("The method again; the same as speculators_model_type.", default="", read=None)
    proposal_methods: Annotated[list[ProposalMethod], Field(min_length=1)] = key("Ways to propose; the first counts.")
    default_proposal_method: str = key(
        "The proposal_type of one entry; Speculators 0.6 and later refuse any other.", default="greedy", read=None
    )
    verifier: Verifier = key("The model the drafter was trained for.")


class SpeculatorConfig(Part):
    """A Speculators `config.json`."""

    speculators_model_type: str = key("The method.")
    speculators_version: str | None = key(
        "The release that wrote the file.", default=None, read=None, examples=["0.9.0"]
    )
    speculators_config: SpeculatorsPart = key("Algorithm, proposals and verifier.")
    model_type: Literal["speculators"] = key(
        "Leave it out. With any other value vLLM reads the file as a plain model and ignores every Speculators key.",
        default="speculators",
        vllm="speculators",
        written=None,
    )
    architectures: list[str] | None = key("The trainer's class; vLLM uses its own.", default=None, read=None)
    dtype: str | None = key("Type of the weights.", default=None, vllm=None, examples=["bfloat16"])
    torch_dtype: str | None = key("dtype, as transformers 4 spelled it.", default=None, vllm=None)
    tie_word_embeddings: bool | None = key("False.", default=False, read=None)
    transformers_version: str | None = key("The release of transformers that wrote the file.", default=None, read=None)
    auto_map: dict[str, Any] | None = key(
        "Left over from saving; leave it out, it makes tools ask for remote code.", default=None, read=None
    )
    quantization_config: dict[str, Any] | None = key(
        "Of a quantised drafter (compressed-tensors).", default=None, vllm=None, written=None
    )
