"""Pure functions over samples and measurements: summaries and rates. Nothing here reads a file or a clock."""
