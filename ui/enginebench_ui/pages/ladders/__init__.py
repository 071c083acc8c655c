"""Ladders: the list, the bars of one ladder, and its rungs in a table. What a ladder is, the controller knows."""
