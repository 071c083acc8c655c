"""One benchmark as pages show it: its lines, the figures of each cell, and how these scale and went over time. Pure."""
