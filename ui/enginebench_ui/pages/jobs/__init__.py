"""All jobs. How they read is in `shared.jobs`."""
