"""Pure functions over samples: distributions, intervals, summaries and comparisons.

Nothing here reads a file or a clock. Raw samples come as re-iterable `BlockSamples` and are never held all at once.
"""
