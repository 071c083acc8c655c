"""Answers: which is faster, whether that can be believed, what is worse, and what would bring more."""
