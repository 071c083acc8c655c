"""What both ends of the wire, and the plugins, must do alike: words, names, and the files that both read or write.

Standard library only. What only one room needs does not live here, and nothing here knows a message.
"""
