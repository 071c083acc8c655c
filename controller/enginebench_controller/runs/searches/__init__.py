"""Searches, whose steps are benchmarks: which configuration to deploy, and which version made it slow."""
