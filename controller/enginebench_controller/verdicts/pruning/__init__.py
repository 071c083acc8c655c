"""What pruning would bring, estimated from passes with sparsity imposed. Only DeepSparse can impose it.

The passes are carried out in `runs.pruning`, and planned in `plan.sparsity`.
"""
