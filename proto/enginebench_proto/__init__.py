"""The wire: the messages and services by which controller and agent meet.

Holds the `.proto` files and the code generated from them, and nothing else; no other room's types appear here.
"""

__version__ = "0.1.0"
