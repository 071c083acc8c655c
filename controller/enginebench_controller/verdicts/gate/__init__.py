"""Gates: whether head is worse than base, as a pure rule, of stored measurements, and in words."""
