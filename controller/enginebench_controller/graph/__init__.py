"""The graph of a model as given: its nodes with every shape known, the work in them, and layers of engines led back.

Where models are kept and how others are made of them is `models`; what all this says about a result is `verdicts`.
"""
