"""A third-party engine for enginebench, small enough to copy."""
