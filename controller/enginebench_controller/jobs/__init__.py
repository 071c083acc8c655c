"""Jobs: commands that run on their own, in a process that outlives the page or shell that started it.

A job carries out a command line of `enginebench`, so by the same code; what it tells of itself lies in a folder,
`HOME/jobs/ID/`, where anybody may read how it is coming along. Results are not kept here: they are in the store.
"""
