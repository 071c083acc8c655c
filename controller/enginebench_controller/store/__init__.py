"""The results in one DuckDB file: `store.Store` is the way in, and nothing outside this room knows DuckDB.

Each subject has a module: its lists and entries, and a subclass of `connection.StoreFile` whose methods are its
queries. A connection lives for one transaction, under a file lock: DuckDB has one writer process, and a writer shuts
out even readers.
"""
