"""The controller: plans benchmarks, drives agents over the wire, keeps the results and prints them.

Never runs a benchmark itself and never imports an engine plugin; what it knows of targets it learned through gRPC.
"""
