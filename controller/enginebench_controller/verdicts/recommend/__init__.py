"""Recommendations: what to measure next of many configurations, as a pure policy, and which is named."""
