"""Making another machine a target over SSH: enginebench installed there, its agent kept running. No measuring here."""
