"""Benchmarks and profiles that travel: exported files read back without loss and at most once."""
