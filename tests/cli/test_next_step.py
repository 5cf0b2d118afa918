"""Every refusal of the system comes with something to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from command_line import spectool
from mutations import PAIRS

from spectool.cli.next_step import next_step


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.EACCES, "ls -ld"),
        (errno.EROFS, "read-only"),
        (errno.ENOSPC, "df -h"),
        (errno.EDQUOT, "quota"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "dmesg"),
        (errno.ELOOP, "ls -l"),
    ],
)
def test_what_the_system_refuses(number: int, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: object, *arguments: object, **options: object) -> int:
        if str(path).endswith("config.json"):
            raise OSError(number, os.strerror(number))
        return real(path, *arguments, **options)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(os, "open", refuse)
    done = spectool("inspect", str(PAIRS / "dflash-zlab"))
    assert done.code == 2
    assert os.strerror(number) in done.err
    assert step in done.err.partition("hint: ")[2]


def test_other_messages_get_none() -> None:
    assert next_step("no rule 'X'") is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "d", "--tensor-parallel-size", "2"], "after --: spectool serve ... -- --tensor-parallel-size"),
        (["validate", "d", "--max-model-len=9"], "after --: spectool validate ... -- --max-model-len=9"),
        (["serve", "d", "--gpu", "2"], "--gpus"),
        (["convert", "d", "o", "--to", "zlap"], "'zlap' is not one of 'speculators'"),
        (["validat", "d"], "validate"),
        (["rule", "ATT01"], "ATT001"),
        (["probe"], "hint: spectool probe DRAFTER --verifier V"),
        (["convert", "d", "o", "--set", "mask_token_id"], "hint: For example: --set"),
        ([], "Start with `spectool inspect DRAFTER`"),
    ],
)
def test_a_slip_on_the_command_line(words: list[str], said: str) -> None:
    done = spectool(*words)
    assert done.code == 2
    assert said in " ".join((done.out + done.err).split())
    assert "Value error" not in done.err


def test_a_flag_that_convert_lacks_is_none_of_vllms() -> None:
    assert "after --" not in spectool("convert", "d", "o", "--tensor-parallel-size", "2").err
