from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from spectool.engine.locate import locate, script_interpreter
from spectool.errors import EngineMissingError


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def plain_or_quoted(python: Path) -> str:
    """The head of a script as installers write it; after `#!` no path with a blank can stand."""
    return (
        f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"
        if " " in str(python)
        else f"#!{python}\nimport sys\n"
    )


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return executable(tmp_path / "venv" / "bin" / "python")


def test_the_option_wins_over_variable_and_path(tmp_path: Path, python: Path) -> None:
    other = executable(tmp_path / "other" / "python3")
    script = executable(tmp_path / "bin" / "vllm", plain_or_quoted(other))
    env = {"SPECTOOL_ENGINE": str(other), "PATH": str(script.parent)}
    assert locate(str(python), env).python == python
    assert locate(None, env).python == other
    assert locate(None, env).source == "SPECTOOL_ENGINE"
    assert locate(None, {"PATH": str(script.parent)}).python == other


def test_a_folder_of_an_environment_and_a_name_on_path(tmp_path: Path, python: Path) -> None:
    assert locate(str(tmp_path / "venv"), {}).python == python
    assert locate("python", {"PATH": str(python.parent)}).python == python


def test_the_link_of_an_environment_is_not_resolved(tmp_path: Path) -> None:
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert locate(str(link), {}).python == link


@pytest.mark.parametrize("named", ["/nowhere/python", "no-such-python-xyz"])
def test_what_was_named_is_never_replaced(named: str, python: Path) -> None:
    env = {"PATH": os.environ["PATH"], "SPECTOOL_ENGINE": str(python)}
    with pytest.raises(EngineMissingError, match=r"--engine-python names .* does not exist"):
        locate(named, env)
    with pytest.raises(EngineMissingError, match="SPECTOOL_ENGINE names"):
        locate(None, env | {"SPECTOOL_ENGINE": named})


def test_a_file_that_is_not_executable(tmp_path: Path) -> None:
    file = tmp_path / "python"
    file.write_text("")
    with pytest.raises(EngineMissingError, match="not executable"):
        locate(str(file), {})


def test_no_engine_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(EngineMissingError, match="no vLLM engine was found") as caught:
        locate(None, {"PATH": str(tmp_path)})
    assert "SPECTOOL_ENGINE" in (caught.value.hint or "")
    executable(tmp_path / "vllm", "#!/bin/sh\nexec docker run vllm\n")
    with pytest.raises(EngineMissingError, match="is on PATH, but it is no Python script"):
        locate(None, {"PATH": str(tmp_path)})


def test_the_three_forms_of_an_installed_script(tmp_path: Path) -> None:
    spaced = executable(tmp_path / "with space" / "python3.11")
    env = {"PATH": str(spaced.parent)}
    forms = [
        plain_or_quoted(executable(tmp_path / "bin" / "python3")),
        f"#!/bin/sh\n'''exec' \"{spaced}\" \"$0\" \"$@\"\n' '''\n",
        "#!/usr/bin/env python3.11\n",
        "#!/usr/bin/env -S python3.11 -E\n",
    ]
    found = [script_interpreter(executable(tmp_path / f"s{n}", text), env) for n, text in enumerate(forms)]
    assert found == [tmp_path / "bin" / "python3", spaced, spaced, spaced]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no shebang",
        "#!/bin/bash\n",
        "#!/nowhere/python3\n",
        "#!/bin/sh\n'''exec' \"unbalanced\n",
        "#!python3\n",
        "#!",
    ],
)
def test_what_is_no_python_script(tmp_path: Path, text: str) -> None:
    assert script_interpreter(executable(tmp_path / "vllm", text), {"PATH": ""}) is None


def test_a_binary_is_no_script(tmp_path: Path) -> None:
    path = tmp_path / "vllm"
    path.write_bytes(b"\x7fELF\xff\xfe" * 1000)
    assert script_interpreter(path, {}) is None
    assert script_interpreter(tmp_path / "missing", {}) is None
