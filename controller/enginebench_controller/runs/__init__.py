"""Carrying plans out: runs across broken connections, their results kept, and taking up what was interrupted."""
