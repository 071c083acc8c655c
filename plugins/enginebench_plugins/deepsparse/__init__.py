"""DeepSparse 1.8: sparsity-aware inference on CPUs, in an environment of its own (Python < 3.12, NumPy < 2)."""
