"""What a model file is: its format, files, inputs and outputs, read without its weights and without trusting it.

What the nodes inside compute is read in `graph`. Every reader of a stranger's file runs within `models.bounded`.
"""
