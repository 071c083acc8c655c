"""Recommendations: ordering one, the answer, its front, what was tried. How it is searched, the controller knows."""
