"""Projects and model versions: what to compare, and forms that make one version from another."""
