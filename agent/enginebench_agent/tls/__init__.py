"""Mutual TLS: the agent's certificate, whom it lets in, and who was revoked. Imported only where TLS is on.

It needs `cryptography`, which an agent on loopback does without.
"""
