"""Profiles for other programs: JSON, CSV, Parquet, and a trace for Perfetto.

What is unknown is null, or an empty cell, in each of them and never 0; a layer's state says why a time is missing.
"""

from enginebench_controller.exports.export import ExportFormat, export_profiles

__all__ = ["ExportFormat", "export_profiles"]
