"""The public JSON documents that `--json` prints and exports hold."""
