"""Which bit patterns of a float dtype are no finite numbers.

`Float.find` works on whole blocks: it takes the top byte of every value (a slice with a stride) and looks for the few
byte values that a NaN or an infinity can begin with. Trained weights have none of them, so that values are looked at
one by one only where something may be wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["NaN", "Inf"]


@dataclass(frozen=True)
class Float:
    """A little-endian float format of `width` bytes.

    A value with all bits of `exponent` set is not finite; it is an infinity when no bit of `mantissa` is set (formats
    without infinities have `mantissa` None). `only`: the one pattern that is a NaN, for formats where exponents say
    nothing.
    """

    width: int
    exponent: int = 0
    mantissa: int | None = None
    only: int | None = None

    def kind(self, value: int) -> Kind | None:
        """Return what a bit pattern is; None for a finite number."""
        if self.only is not None:
            return "NaN" if value == self.only else None
        if value & self.exponent != self.exponent:
            return None
        return "NaN" if self.mantissa is None or value & self.mantissa else "Inf"

    @cached_property
    def _tops(self) -> tuple[int, ...]:
        """Top bytes that a value which is not finite can have."""
        if self.only is not None:
            return (self.only,)
        wanted = self.exponent >> 8 * (self.width - 1)
        return tuple(top for top in range(256) if top & wanted == wanted)

    @cached_property
    def _search(self) -> re.Pattern[bytes]:
        return re.compile(b"[" + b"".join(re.escape(bytes([top])) for top in self._tops) + b"]")

    def find(self, block: bytes | bytearray) -> tuple[int, Kind] | None:
        """Return place and kind of the first value in a block that is not finite."""
        tops = block if self.width == 1 else block[self.width - 1 :: self.width]
        if not any(top in tops for top in self._tops):
            return None
        for match in self._search.finditer(tops):
            place = match.start()
            value = int.from_bytes(block[place * self.width : (place + 1) * self.width], "little")
            kind = self.kind(value)
            if kind is not None:
                return place, kind
        return None


# F4, F6 and integers have neither. C64 is read as two F32 per value.
FLOATS: dict[str, Float] = {
    "BF16": Float(2, 0x7F80, 0x007F),
    "F16": Float(2, 0x7C00, 0x03FF),
    "F32": Float(4, 0x7F800000, 0x007FFFFF),
    "F64": Float(8, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
    "C64": Float(4, 0x7F800000, 0x007FFFFF),
    "F8_E5M2": Float(1, 0x7C, 0x03),
    "F8_E4M3": Float(1, 0x7F),
    "F8_E8M0": Float(1, only=0xFF),
    "F8_E4M3FNUZ": Float(1, only=0x80),
    "F8_E5M2FNUZ": Float(1, only=0x80),
}
