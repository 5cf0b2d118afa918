"""Repair a Speculators config.json in place: today's keys for what its trainer meant, and nothing else touched."""
