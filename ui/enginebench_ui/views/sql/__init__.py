"""What the page Search by SQL shows: examples to begin with, an answer as a table, and as a chart."""
