"""Decide what to run, with reasons. Pure: no process, no network, no file."""
