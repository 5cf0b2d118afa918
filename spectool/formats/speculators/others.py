"""Methods that Speculators writes and spectool recognises by name only."""

from __future__ import annotations

OTHERS: dict[str, str] = {
    "eagle3": "EAGLE-3, written by every release; one token per pass; vLLM serves it as it is",
    "dflash2": "DFlash2, written since 0.8; vLLM serves it as it is since 0.30",
    "mtp": "MTP, written since 0.6; vLLM 0.33 does not know the type",
    "xpress": "XPress, written since 0.9; vLLM 0.33 does not know the type",
}
