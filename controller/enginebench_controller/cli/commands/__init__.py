"""The commands, one module a group, each with its tables.

What several share is one folder up, and nothing here is imported before its command is called.
"""
