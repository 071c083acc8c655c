"""DeepSparse: the last release, 1.8, on the processor, and a profile from its own debug analysis."""
