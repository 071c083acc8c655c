"""Layer identity: executed layers of any engine mapped to nodes of the model as given, and profiles joined on that.

Pure functions over records. How a model is read, and how profiles are stored and shown, is elsewhere.
"""
