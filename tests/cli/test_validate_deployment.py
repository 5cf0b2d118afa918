"""`spectool validate FILE`: a deployment file names the pair, the release and the flags of the launch."""

from __future__ import annotations

from pathlib import Path

from command_line import spectool
from mutations import PAIRS, VERIFIER


def test_a_deployment_file(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    path.write_text(
        f'deployment_version = 1\ndrafter = "{PAIRS / "dflash-zlab"}"\nverifier = "{VERIFIER}"\n'
        'engine = "vllm==0.32.0"\n'
        "[vllm]\ntensor-parallel-size = 3\n"
    )
    outcome = spectool("validate", str(path), "--format", "json")
    assert (outcome.code, '"PAR001"' in outcome.out, '"vllm==0.32.0"' in outcome.out) == (1, True, True)
    path.write_text(path.read_text().replace("= 3", "= 4"))
    assert spectool("validate", str(path)).code == 0
