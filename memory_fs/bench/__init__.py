"""Benchmarks: each module measures one promise and prints one table; `memory-fs bench NAME` runs it."""
