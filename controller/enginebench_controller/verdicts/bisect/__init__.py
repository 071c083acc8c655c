"""Bisects: which gate comes next, as a pure function of those before it, and which version is named."""
