"""What several engines need between the contract and their library; other people's plugins may use it.

Nothing here imports an engine; onnx is imported only by who reads a file.
"""
