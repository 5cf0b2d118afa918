"""Speculators `config.json` files, as models that check a copy: nothing here is ever written back."""

from spectool.formats.faults import Fault
from spectool.formats.speculators.parse import Faulty, ParsedConfig, is_speculators, parse_speculators

__all__ = ["Fault", "Faulty", "ParsedConfig", "is_speculators", "parse_speculators"]
