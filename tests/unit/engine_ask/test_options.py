"""Flags read from a release's source: what annotations, `Field` and `add_argument` say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectool.engine.options import options, types_of
from spectool.engine.wheel import Tree

FILES = {
    "model_executor/models/registry.py": "",
    "config/cache.py": """
from typing import Literal
Small = Literal["a", "b"]
Large = Literal["c", Small]
class Level(IntEnum):
    LOW = 0
    HIGH = 1
class Kind(Enum):
    PLAIN = "x.Plain"
@config
class Inner:
    port: int = Field(default=1, ge=-1)
@config
class CacheConfig:
    block_size: int | None = Field(default=None, gt=0)
    share: float = Field(default=0.9, gt=0, le=1)
    kind: Large = "a"
    free: Small | str = "a"
    level: Level = Level.LOW
    on: bool | None = None
    tokens: int = 1
    names: list[str] | None = None
    inner: Inner | None = None
    maybe: bool | str | None = None
    backend: Kind | None = None
    hidden: SkipValidation[int] = 0
""",
    "engine/arg_utils.py": """
human_readable_int_args = {"tokens"}
def add_cli_args(parser):
    kwargs = get_kwargs(CacheConfig)
    level_kwargs = kwargs["level"]
    group.add_argument("--block-size", "-b", **kwargs["block_size"])
    group.add_argument("--share", **kwargs["share"])
    group.add_argument("--kind", **kwargs["kind"])
    group.add_argument("--free", **kwargs["free"])
    group.add_argument("--level", **level_kwargs)
    group.add_argument("--on", **kwargs["on"])
    group.add_argument("--tokens", **{**kwargs["tokens"], "default": None})
    group.add_argument("--names", **kwargs["names"])
    group.add_argument("--inner", **kwargs["inner"])
    group.add_argument("--maybe", **kwargs["maybe"])
    group.add_argument("--headless", action="store_true", default=False)
    group.add_argument("--log", action=argparse.BooleanOptionalAction)
    group.add_argument("--count", type=int, default=None)
    parser.add_argument("model_tag", type=str, nargs="?")
""",
    "entrypoints/openai/cli_args.py": """
class FrontendArgs:
    host: str | None = None
    ssl_cert_reqs: int = 0
    _private: int = 0
""",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(tmp_path)


def test_flags_and_what_they_take(tree: Tree) -> None:
    assert options(tree) == {
        "--block-size": {"also": ["-b"], "takes": "int", "empty": True, "above": 0},
        "--count": {"takes": "int"},
        "--free": {"takes": "text"},
        "--headless": {"takes": "switch"},
        "--host": {"takes": "text", "empty": True},
        "--inner": {"takes": "object", "of": "Inner", "empty": True},
        "--kind": {"takes": "text", "choices": ["a", "b", "c"]},
        "--level": {"takes": "int", "choices": [0, 1], "loose": True},
        "--log": {"takes": "yes-no"},
        "--maybe": {"takes": "text", "maybe": True},
        "--names": {"takes": "text", "many": True, "empty": True},
        "--on": {"takes": "yes-no"},
        "--share": {"takes": "float", "above": 0, "most": 1},
        "--ssl-cert-reqs": {"takes": "int"},
        "--tokens": {"takes": "human"},
    }


def test_keys_of_a_class_and_of_those_inside(tree: Tree) -> None:
    found = types_of(tree).classes(["CacheConfig"])
    assert sorted(found) == ["CacheConfig", "Inner"]
    assert found["Inner"] == {"port": {"is": ["int"], "least": -1}}
    cache = found["CacheConfig"]
    assert cache["inner"] == {"is": ["dict", "None"], "of": "Inner"}
    assert cache["kind"] == {"is": [], "choices": ["c", "a", "b"]}
    assert cache["backend"] == {"is": ["any"], "names": ["PLAIN"]}
    assert cache["hidden"] == {"is": ["any"]}
    assert cache["level"] == {"is": ["any"], "names": ["0", "1"]}
