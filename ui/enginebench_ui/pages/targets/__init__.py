"""Targets: their health, engines, devices and peaks, and what can be done with them."""
