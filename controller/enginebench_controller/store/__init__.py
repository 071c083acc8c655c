"""The results in one DuckDB file: `store.Store` is the way in, and nothing outside this room knows DuckDB.

A connection lives for one transaction, under a file lock: DuckDB has one writer process, and a writer shuts out even
readers.
"""
