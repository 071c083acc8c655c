"""Groups of cases carried out on a cluster of Dask: a group is a task, and a task an agent on its worker's loopback.

Neither the wire nor what a result is lives here: a worker speaks to its agent as a controller does, and sends on what
the agent said. Dask is imported where it is used, and nowhere else.
"""
