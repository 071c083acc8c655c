"""Layer identity: executed layers of any engine mapped to nodes of the model as given, and profiles joined on that.

Begin at `layers_to_nodes`; `graph_to_graph` knows a model's other versions again, `profile_to_profile` sets profiles
side by side. Pure functions over records. How a model is read, and how profiles are stored and shown, is elsewhere.
"""
