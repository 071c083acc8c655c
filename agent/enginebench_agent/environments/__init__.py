"""The Python environments engines live in: made, removed, and asked which engines they have. No engine runs here."""
