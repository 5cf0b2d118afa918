"""Where the configuration is found, what it may say, and how the command line wins over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectool.configuration.find import find_configuration
from spectool.configuration.merge import wishes
from spectool.configuration.selection import make_selection, parse_ignore
from spectool.errors import SourceError, UsageError
from spectool.rules.registry import rules


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_search_goes_upward_and_ends_at_the_repository(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "a" / "b"
    inner.mkdir(parents=True)
    outside = write(tmp_path / "spectool.toml", "")
    assert (find_configuration(inner) or ())[0] == outside
    (tmp_path / "repo" / ".git").mkdir()
    assert find_configuration(inner) is None
    root = write(tmp_path / "repo" / "spectool.toml", "")
    assert (find_configuration(inner) or ())[0] == root
    near = write(tmp_path / "repo" / "a" / "pyproject.toml", "[tool.spectool]\n")
    assert (find_configuration(inner) or ())[0] == near


def test_in_one_folder_spectool_toml_wins_and_other_projects_do_not_count(tmp_path: Path) -> None:
    write(tmp_path / "pyproject.toml", '[project]\nname = "x"\n')
    (tmp_path / ".git").touch()  # a worktree has a file there
    assert find_configuration(tmp_path) is None
    write(tmp_path / "pyproject.toml", '[tool.spectool]\nfail-on = "note"\n')
    assert find_configuration(tmp_path) == (tmp_path / "pyproject.toml", {"fail-on": "note"})
    own = write(tmp_path / "spectool.toml", 'fail-on = "never"\n')
    assert find_configuration(tmp_path) == (own, {"fail-on": "never"})


def test_the_command_line_wins_and_reasons_add_up(tmp_path: Path) -> None:
    text = (
        'fail-on = "warning"\nengine = "vllm==0.32.0"\nselect = ["ATT"]\n[ignore]\nVER005 = "ours"\nATT001 = "theirs"\n'
    )
    write(tmp_path / "spectool.toml", text)
    plain = wishes(None, tmp_path)
    assert (plain.fail_on, plain.engine) == ("warning", "vllm==0.32.0")
    assert plain.selection.codes == {code for code in rules() if code.startswith("ATT")}
    assert plain.selection.ignore == {"VER005": "ours", "ATT001": "theirs"}
    loud = wishes(
        None, tmp_path, fail_on="never", engine="0.33.0", select=["rop,SLT001", "SLT002"], ignore=["att001=mine"]
    )
    assert (loud.fail_on, loud.engine) == ("never", "0.33.0")
    assert loud.selection.codes == {code for code in rules() if code.startswith("ROP")} | {"SLT001", "SLT002"}
    assert loud.selection.ignore == {"VER005": "ours", "ATT001": "mine"}
    assert wishes(write(tmp_path / "empty.toml", ""), tmp_path).fail_on == "error"


def test_nothing_said_is_everything(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    found = wishes(None, tmp_path)
    assert (found.fail_on, found.engine, found.file, found.selection.codes) == ("error", None, None, None)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("fail_on = 'note'", "unknown key 'fail_on'", "Did you mean fail-on?"),
        ("selct = ['ATT']", "unknown key 'selct'", "Did you mean select?"),
        ("colour = 1", "unknown key 'colour'", "Known keys: fail-on, select, ignore, gpu-file, engine."),
        ("fail-on = 'fatal'", "fail-on: input should be 'error'", "schema show configuration"),
        ("select = 'ATT'", "select: input should be a valid list", "schema show configuration"),
        ("select = []", "select: list should have at least 1 item", "schema show configuration"),
        ("select = ['ZZZ']", "spectool.toml: select: no rule's code begins with 'ZZZ'", ""),
        ("ignore = ['ATT001']", "ignore: input should be a valid dictionary", "schema show configuration"),
        ("[ignore]\nATT001 = ''", "ignore.ATT001: string should have at least 1 character", ""),
        ("[ignore]\nATT001 = ' '", "ignoring ATT001 needs a reason", ""),
        ("[ignore]\nATT009 = 'x'", "no rule 'ATT009' to ignore", "Did you mean ATT00"),
        ("engine = 0.33", "engine: input should be a valid string", ""),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, message: str, hint: str, tmp_path: Path) -> None:
    write(tmp_path / "spectool.toml", text)
    with pytest.raises(UsageError) as caught:
        wishes(None, tmp_path)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert "spectool.toml" in caught.value.message or "ignor" in caught.value.message


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    for raw in (b"a = ", b"\xff", b"a = [" * 20000):
        path = tmp_path / "spectool.toml"
        path.write_bytes(raw)
        with pytest.raises(SourceError, match=r"spectool\.toml"):
            wishes(None, tmp_path)
    with pytest.raises(SourceError, match=r"absent\.toml"):
        wishes(tmp_path / "absent.toml", tmp_path)
    write(tmp_path / "pyproject.toml", "tool = 3\n")
    assert wishes(tmp_path / "pyproject.toml", tmp_path).fail_on == "error"
    write(tmp_path / "pyproject.toml", "[tool]\nspectool = 3\n")
    with pytest.raises(UsageError, match="is no table"):
        wishes(tmp_path / "pyproject.toml", tmp_path)


def test_prefixes() -> None:
    every = {code for code in rules() if code.startswith("V")}
    assert make_selection(["V"], {}).codes == every
    with pytest.raises(UsageError, match="begins with 'ATX'"):
        make_selection(["ATX"], {})
    with pytest.raises(UsageError):
        make_selection([""], {})


@pytest.mark.parametrize("text", ["ATT001", "ATT001=", "ATT001= ", "=x"])
def test_a_reason_is_required(text: str) -> None:
    with pytest.raises(UsageError):
        make_selection((), parse_ignore([text]))


def test_a_reason_may_hold_an_equals_sign_and_is_one_line() -> None:
    assert make_selection((), parse_ignore(["ATT001=a=b\n c"])).ignore == {"ATT001": "a=b c"}
    with pytest.raises(UsageError, match="twice"):
        parse_ignore(["ATT001=a", "ATT001=b"])
