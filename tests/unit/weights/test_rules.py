# ruff: noqa: E501 - tables: one case, one line
"""Each WGT rule: what makes it speak, and its near miss, which differs in one value at the boundary."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkpoints import read_back, write_checkpoint_folder
from mutations import NATIVE, PAIRS, VERIFIER, Change, Config, Tensors, both, folder, nothing, put, with_int64, without

from spectool import api
from spectool.rules.registry import Finding

K5 = {"speculative_tokens": 5}
ROW = 2 * 128


def write(name: str, place: int, data: bytes) -> Change:
    """Overwrite bytes of a tensor; a negative place counts from its end."""

    def change(config: Config, tensors: Tensors) -> None:
        dtype, shape, old = tensors[name]
        start = place if place >= 0 else len(old) + place
        tensors[name] = (dtype, shape, old[:start] + data + old[start + len(data) :])

    return change


def zero(name: str, *, but_last: bytes = b"") -> Change:
    """Fill a tensor with zeros, except for its last bytes."""

    def change(config: Config, tensors: Tensors) -> None:
        dtype, shape, old = tensors[name]
        tensors[name] = (dtype, shape, bytes(len(old) - len(but_last)) + but_last)

    return change


def add(name: str, dtype: str, shape: tuple[int, ...], data: bytes) -> Change:
    def change(config: Config, tensors: Tensors) -> None:
        tensors[name] = (dtype, shape, data)

    return change


def found(path: Path, *, verifier: Path | None = VERIFIER) -> list[Finding]:
    settings = K5 if "ptd_token_id" in (path / "config.json").read_text(encoding="utf-8") else None
    report = api.validate(str(path), verifier=str(verifier) if verifier else None, settings=settings, weights=True)
    assert {code for code in report.checked if code.startswith("WGT")} >= {"WGT001", "WGT002", "WGT004"}
    return list(report.findings)


def test_good_pairs_are_clean() -> None:
    for name in NATIVE.values():
        assert found(PAIRS / name) == []


def test_without_the_option_nothing_is_read(tmp_path: Path) -> None:
    report = api.validate(str(folder(PAIRS / "dflash-zlab", tmp_path / "d", zero("norm.weight"))))
    assert report.findings == ()
    assert not any(code.startswith("WGT") for code in report.checked)


NO_CONFIDENCE = both(
    put("enable_confidence_head", False), without("confidence_head.proj.bias", "confidence_head.proj.weight")
)
NO_MARKOV = both(zero("markov_head.markov_w1.weight"), zero("markov_head.markov_w2.weight"))
DOWN = "layers.1.mlp.down_proj.weight"

FIRES: list[tuple[str, str, Change, list[str], str]] = [
    ("dflash", "infinity at the end", write("fc.weight", -2, b"\x80\x7f"), ["WGT001"], "fc.weight has Inf at [127, 383]"),
    ("dflash", "NaN", write(DOWN, 2 * (3 * 256 + 5), b"\x81\xff"), ["WGT001"], f"{DOWN} has NaN at [3, 5]"),
    ("dflash", "zero tensor", zero(DOWN), ["WGT002"], f"nothing but zeros: {DOWN}"),
    ("dflash", "zero norm", zero("norm.weight"), ["WGT002"], "norm.weight"),
    ("dspark", "zero Markov head beside a confidence head", NO_MARKOV, ["WGT002"], "markov_w1.weight, markov_head"),
    ("dspark", "half a zero Markov head", both(NO_CONFIDENCE, zero("markov_head.markov_w1.weight")), ["WGT002"], "markov_w1"),
    ("peagle", "zero mask state", zero("mask_hidden"), ["WGT002"], "mask_hidden"),
    ("peagle", "zero mask row", write("embed_tokens.weight", 511 * ROW, bytes(ROW)), ["WGT004"], "row 511 of the drafter's"),
    ("dspark", "one bit of the embedding", write("embed_tokens.weight", -2, b"\0"), ["WGT005"], "takes 131072 bytes"),
    ("dspark", "one bit of the head", write("lm_head.weight", 0, b"\0"), ["WGT005"], "lm_head.weight differs"),
]  # fmt: skip
NEAR_MISSES: list[tuple[str, str, Change]] = [
    ("dflash", "the largest number", write("fc.weight", -2, b"\x7f\x7f")),
    ("dflash", "infinity across two values", write("fc.weight", -3, b"\x80\x7f\x00")),
    ("dflash", "the smallest number at the end", zero(DOWN, but_last=b"\x01\x00")),
    ("dspark", "zero Markov head of a drafter without confidence head", both(NO_CONFIDENCE, NO_MARKOV)),
    ("dspark", "zero confidence bias", zero("confidence_head.proj.bias")),
    ("peagle", "the row before the mask row", write("embed_tokens.weight", 510 * ROW, bytes(ROW))),
    ("peagle", "one value in the mask row", write("embed_tokens.weight", 511 * ROW, bytes(ROW - 2) + b"\x80\x3f")),
    ("peagle", "an embedding of its own", write("embed_tokens.weight", 0, b"\x01")),
    ("dspark", "borrowed embedding", without("embed_tokens.weight", "lm_head.weight")),
]


@pytest.mark.parametrize(("method", "name", "change", "expected", "words"), FIRES, ids=[case[1] for case in FIRES])
def test_fires(method: str, name: str, change: Change, expected: list[str], words: str, tmp_path: Path) -> None:
    findings = found(folder(PAIRS / NATIVE[method], tmp_path / "d", change))
    assert [item.code for item in findings] == expected
    assert words in findings[0].message
    assert findings[0].file == "model.safetensors"
    assert findings[0].key in read_back(tmp_path / "d" / "model.safetensors")


@pytest.mark.parametrize(("method", "name", "change"), NEAR_MISSES, ids=[case[1] for case in NEAR_MISSES])
def test_near_miss(method: str, name: str, change: Change, tmp_path: Path) -> None:
    assert found(folder(PAIRS / NATIVE[method], tmp_path / "d", change)) == []


def test_a_scalar_of_nothing_but_zeros_in_a_quantised_file_is_no_business_of_ours(tmp_path: Path) -> None:
    """Only tensors a drafter trains have to hold something: a zero point may well be zero."""
    change = add("layers.0.mlp.up_proj.weight_zero_point", "BF16", (1,), bytes(2))
    codes = {item.code for item in found(folder(PAIRS / "dflash-zlab", tmp_path / "d", change))}
    assert "WGT002" not in codes


# A draft vocabulary of 128: the even ids of the first 256.
EVEN = [2 * draft for draft in range(128)]
UP = list(range(128))  # as offsets


def reduced(d2t: list[int], t2d: list[int] | None = None) -> Change:
    def change(config: Config, tensors: Tensors) -> None:
        config["draft_vocab_size"] = 128
        dtype, _, data = tensors["lm_head.weight"]
        tensors["lm_head.weight"] = (dtype, (128, 128), data[: 128 * ROW])
        with_int64("d2t", d2t)(config, tensors)
        if t2d is not None:
            named = set(t2d)
            tensors["t2d"] = ("BOOL", (512,), bytes(token in named for token in range(512)))

    return change


MAPS: list[tuple[str, Change, list[str], str]] = [
    ("offsets, proved", reduced(UP, EVEN), [], ""),
    ("offsets, alone", reduced([384] * 128), [], ""),
    ("to the last id", reduced([*UP[:-1], 511 - 127], [*EVEN[:-1], 511]), [], ""),
    ("one beyond the last id", reduced([*UP[:-1], 512 - 127], [*EVEN[:-1], 511]), ["VOC004"], "than t2d names"),
    ("one id off", reduced([*UP[:-1], 126], EVEN), ["VOC004"], "than t2d names"),
    ("absolute, proved", reduced(EVEN, EVEN), ["VOC004"], "not offsets"),
    ("outside, alone", reduced([385] * 128), ["VOC004"], "outside the vocabulary"),
    ("all zero, alone", reduced([0] * 128), ["VOC004"], "the first 128 ids"),
    ("all zero, proved", reduced([0] * 128, list(range(128))), [], ""),
    ("wrong dtype", both(reduced(UP), add("d2t", "F32", (128,), b"\0\0\x80\x3f" * 128)), ["VOC004"], "dtype F32"),
    ("t2d too short to say anything", both(reduced([384] * 128), add("t2d", "BOOL", (511,), bytes(511))), [], ""),
    ("t2d of all ids", both(reduced([384] * 128), add("t2d", "BOOL", (512,), b"\1" * 512)), [], ""),
    ("out of order", reduced([383, 385, *[384] * 126]), ["VOC004"], ""),
    ("the first two swapped", reduced([1, -1, *[384] * 126], [1, 0, *range(386, 512)]), [], ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "expected", "words"), MAPS, ids=[case[0] for case in MAPS])
def test_vocabulary_map(name: str, change: Change, expected: list[str], words: str, tmp_path: Path) -> None:
    findings = [
        item
        for item in found(folder(PAIRS / "peagle-native", tmp_path / "d", change))
        if item.code not in {"TEN003", "VOC003"}
    ]
    assert [item.code for item in findings] == expected
    assert all(words in item.message for item in findings)


def test_a_map_that_fits_two_readings_is_unknown(tmp_path: Path) -> None:
    path = folder(PAIRS / "peagle-native", tmp_path / "d", reduced(EVEN))
    report = api.validate(str(path), verifier=str(VERIFIER), settings=K5, weights=True)
    assert [item.missing for item in report.unknowns if item.code == "VOC004"] == [
        "t2d: the values of d2t fit offsets and absolute ids"
    ]


def verifier(out: Path, change: Change) -> Path:
    return folder(VERIFIER, out, change)


def embedding() -> str:
    return next(name for name in read_back(VERIFIER / "model.safetensors") if name.endswith("embed_tokens.weight"))


def test_the_borrowed_mask_row(tmp_path: Path) -> None:
    drafter = PAIRS / "dflash-zlab"
    for number, (data, words) in enumerate(((bytes(ROW), "all zero"), (b"\x80\x7f", "not finite (Inf)"))):
        broken = verifier(tmp_path / f"v{number}", write(embedding(), 511 * ROW, data))
        [item] = found(drafter, verifier=broken)
        assert item.code == "WGT004"
        assert f"row 511 of the verifier's embedding ({embedding()}) is {words}" in item.message
        assert (item.file, item.key) == ("config.json", "dflash_config.mask_token_id")
    assert found(drafter, verifier=verifier(tmp_path / "v", write(embedding(), 510 * ROW, bytes(ROW)))) == []


def test_what_the_verifier_would_say_is_unknown_without_it() -> None:
    report = api.validate(str(PAIRS / "dspark-deepspec"), weights=True)
    assert {item.code for item in report.unknowns if "weights" in item.missing} >= {"WGT005"}
    report = api.validate(str(PAIRS / "dflash-zlab"), weights=True)
    assert "WGT004" in {item.code for item in report.unknowns}


def test_a_tied_verifier_is_compared_by_its_embedding(tmp_path: Path) -> None:
    def tie(config: Config, tensors: Tensors) -> None:
        config["tie_word_embeddings"] = True
        tensors.pop("lm_head.weight", None)

    def same_head(config: Config, tensors: Tensors) -> None:
        tensors["lm_head.weight"] = tensors["embed_tokens.weight"]

    tied = verifier(tmp_path / "v", tie)
    assert found(folder(PAIRS / "dspark-deepspec", tmp_path / "a", same_head), verifier=tied) == []
    assert [item.code for item in found(folder(PAIRS / "dspark-deepspec", tmp_path / "b", nothing), verifier=tied)] == [
        "WGT005"
    ]


def test_other_dtypes_differ(tmp_path: Path) -> None:
    def wider(config: Config, tensors: Tensors) -> None:
        _, shape, data = tensors["embed_tokens.weight"]
        wide = b"".join(b"\0\0" + data[at : at + 2] for at in range(0, len(data), 2))
        tensors["embed_tokens.weight"] = ("F32", shape, wide)

    codes = [item.code for item in found(folder(PAIRS / "dspark-deepspec", tmp_path / "d", wider))]
    assert "WGT005" in codes


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    for change in (nothing, write("fc.weight", 0, b"\x80\x7f"), zero(DOWN)):
        seen: list[tuple[int, int]] = []
        path = folder(PAIRS / "dspark-deepspec", tmp_path / f"{len(list(tmp_path.iterdir()))}", change)
        api.validate(
            str(path),
            verifier=str(VERIFIER),
            weights=True,
            progress=lambda done, total, seen=seen: seen.append((done, total)),
        )
        assert seen[-1][0] == seen[-1][1]
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_empty_weights_are_no_crash(tmp_path: Path) -> None:
    write_checkpoint_folder(tmp_path / "d", {"architectures": ["DFlashDraftModel"], "dflash_config": {}}, {})
    api.validate(str(tmp_path / "d"), weights=True)
