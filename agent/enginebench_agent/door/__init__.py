"""The agent's door: who may come in, what each may call, what is noted and counted of every call.

What a call then does is not here.
"""
