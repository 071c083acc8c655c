"""Whether numbers can be believed and compared: what ran, what disturbed it, what it computed."""
