"""Where a person begins: what was measured last and what it answered, what runs, the targets, what to do next."""
