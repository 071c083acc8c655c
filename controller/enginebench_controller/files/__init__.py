"""All that leaves or enters as a file: JSON, CSV, Parquet, traces, reports, charts, imports. No verdicts here."""
