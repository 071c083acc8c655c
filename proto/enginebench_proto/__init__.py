"""Where controller and agent meet: the wire (`v1`), and what both ends must do alike (`agreed`).

`v1` holds the `.proto` files and the code generated from them. `agreed` needs the standard library only. No other
room's types appear here.
"""

__version__ = "0.1.0"
