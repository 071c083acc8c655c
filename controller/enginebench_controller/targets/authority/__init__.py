"""Who belongs: the certificate authority a person keeps, and the certificates it gives to agents and clients.

Nothing here speaks to an agent; what is made here is copied to where it is used.
"""
