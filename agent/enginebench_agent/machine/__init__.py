"""TODO: what lives here, and what does not."""
