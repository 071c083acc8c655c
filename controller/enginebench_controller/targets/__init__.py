"""Reaching agents: addresses, channels, calls, health, certificates, installation. Nothing is measured here."""
