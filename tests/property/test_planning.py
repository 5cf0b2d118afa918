"""What must hold of every plan, whatever the figures."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from plan_drafters import drafter_with

from spectool.planning.budget import budget_faults, budget_notes, lookahead, plan_budget, release
from spectool.planning.gpus import catalogue
from spectool.planning.kv_capacity import capacity, longest
from spectool.planning.kv_groups import CacheLayer, UngroupableError, group_layers
from spectool.planning.models import model_of
from spectool.planning.parallel import candidates, obstacles
from spectool.planning.weights import Tensor, rank_weights

GIB = 2**30
heads = st.sampled_from([1, 2, 4, 8, 16])
layer = st.builds(
    lambda kind, kv, dim, window: CacheLayer(
        kind, kv, 4 * dim, 16, window=window if kind == "sliding" else 0, geometry=f"{dim}"
    ),
    st.sampled_from(["full", "sliding"]),
    heads,
    st.sampled_from([64, 80, 128, 256]),
    st.sampled_from([128, 1024, 4096]),
)
models = st.lists(st.tuples(layer, st.integers(1, 40)), min_size=1, max_size=4).map(
    lambda parts: [one for one, count in parts for _ in range(count)]
)
lengths = st.integers(1, 262144)
pools = st.integers(GIB // 2, 80 * GIB)


@given(models)
def test_every_layer_is_in_exactly_one_group(layers: list[CacheLayer]) -> None:
    try:
        groups = group_layers(layers)
    except UngroupableError:
        assume(False)
        return
    members = sorted(member for group in groups for member in group.members)
    assert members == list(range(len(layers)))


@given(models, pools, st.integers(0, GIB), lengths, st.sampled_from([2048, 16384]))
def test_more_memory_never_holds_less(
    layers: list[CacheLayer], pool: int, more: int, length: int, in_flight: int
) -> None:
    assert capacity(layers, pool, length, in_flight).tokens <= capacity(layers, pool + more, length, in_flight).tokens


@given(models, pools, lengths, st.integers(0, 100000), st.integers(0, 65536))
def test_longer_requests_and_larger_batches_never_let_more_run(
    layers: list[CacheLayer], pool: int, length: int, more: int, in_flight: int
) -> None:
    before = capacity(layers, pool, length, in_flight)
    assert capacity(layers, pool, length + more, in_flight).concurrency <= before.concurrency
    assert capacity(layers, pool, length, in_flight + more).concurrency <= before.concurrency


@given(models, pools, st.integers(1, 262144))
@settings(max_examples=50)
def test_the_longest_length_fits_and_the_next_does_not(layers: list[CacheLayer], pool: int, limit: int) -> None:
    found = longest(layers, pool, limit, 2048)
    if found:
        assert capacity(layers, pool, found, 2048).fits
    if found < limit:
        assert not capacity(layers, pool, found + 1, 2048).fits


@given(st.integers(1, 16), st.integers(1, 64), st.integers(1, 16))
def test_ranks_divide_heads_and_share_kv_heads(gpus: int, count: int, kv: int) -> None:
    text = {"num_attention_heads": count * 2, "num_key_value_heads": kv, "num_hidden_layers": 1, "hidden_size": 8}
    model, drafter = model_of("v", text), drafter_with(heads=count, kv_heads=kv, mlp=5040 * 16)
    found = candidates(gpus, model, drafter)
    assert found[0] == 1
    for ranks in found:
        assert count % ranks == 0
        assert kv % ranks == 0 or ranks % kv == 0
    assert all(obstacles(ranks, model, drafter) for ranks in set(range(1, gpus + 1)) - set(found))


@given(
    st.sampled_from(["0.32.0", "0.33.0"]),
    st.sampled_from(catalogue()),
    st.sampled_from(["peagle", "dflash", "dspark"]),
    st.integers(1, 31),
    st.sampled_from(["anchor-first", "bonus-anchor"]),
    st.integers(0, 5000),
    st.none() | st.integers(1, 4096),
)
def test_an_own_budget_lets_every_request_draft(
    version: str, gpu: object, method: str, k: int, slots: str, floor: int, sequences: int | None
) -> None:
    facts = release(version)
    budget = plan_budget(facts, gpu, method, k, slots, floor=floor, sequences=sequences)  # type: ignore[arg-type]  # drawn from plain str
    assert budget_faults(budget, facts, method) == []  # type: ignore[arg-type]  # drawn from plain str
    assert budget_notes(budget, facts, method) == []  # type: ignore[arg-type]  # drawn from plain str
    assert budget.batched_tokens >= max(floor, budget.sequences * lookahead(method, k, slots))  # type: ignore[arg-type]  # drawn from plain str


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["layers.0.self_attn.q_proj.weight", "embed_tokens.weight", "norm.weight", "fc.weight"]),
            st.integers(1, 500),
            st.integers(1, 500),
        ),
        max_size=5,
    ),
    st.sampled_from([1, 2, 4, 8]),
)
def test_ranks_together_hold_all_weights_and_one_at_most_all_of_them(
    parts: list[tuple[str, int, int]], ranks: int
) -> None:
    tensors = [Tensor(name, (rows, columns), 2 * rows * columns) for name, rows, columns in parts]
    found = rank_weights(tensors, ranks, 8, "test")
    assert found.rank * ranks >= found.total
    if ranks == 1:
        padding = sum(2 * 63 * columns for name, _, columns in parts if name.startswith("embed"))
        assert found.rank <= found.total + padding
