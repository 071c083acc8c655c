"""Files that callers uploaded, and the private folder a run gets of them.

Results are in `runs.spool`; nothing here reads a model.
"""
