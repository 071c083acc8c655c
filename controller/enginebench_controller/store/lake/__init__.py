"""Results of many writers as Delta tables, in a folder or an S3-compatible store, by the library `deltalake`.

`place` is where a lake lies and opens its tables, `tables` what they hold, `writing` puts benchmarks and profiles
there, `reading` has the store that the rest of the controller reads them by, and `upkeep` joins small files. The file
of one's own is no lake and knows of none.
"""
