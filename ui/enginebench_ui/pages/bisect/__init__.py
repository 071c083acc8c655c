"""Bisects: ordering one, and the way through the versions as a line. What is asked next, the controller knows."""
