"""What the page of ladders shows: the list, the bars of one ladder, and its rungs in a table."""
