"""Make prompts.json: ten text prompts as token ids of the example verifier, so that nothing else needs a tokenizer.

    ENGINE_PYTHON prompts.py VERIFIER > prompts.json
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

TEXTS = [
    "def __init__(self, ",
    "import os\nimport sys\n",
    'class Foo(object):\n    """',
    "    for i in range(",
    "        raise ValueError(",
    "    if not isinstance(",
    "def test_",
    "    return self.",
    "try:\n    import ",
    "# This module ",
]

if __name__ == "__main__":
    tokenizer = Tokenizer.from_file(str(Path(sys.argv[1]) / "tokenizer.json"))
    rows = [json.dumps({"text": text, "ids": tokenizer.encode(text).ids}) for text in TEXTS]
    print("[\n" + ",\n".join(rows) + "\n]")
