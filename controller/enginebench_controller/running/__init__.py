"""Carrying plans out: targets over the wire, runs across broken connections, results kept."""
