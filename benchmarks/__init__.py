"""The harness against its peers: how true, how steady, how cheap and how quick enginebench measures.

    python -m benchmarks [--quick] [--only PART,…]

One module a part (`loops`, `tools`, `cost`, `patience`, `overload`), each with `measure(setting)`, which returns rows
of plain data, and `table(rows)`, which shows them. `peers` and `bare_loop` are the other side, `ours` is this side.
Nothing here is part of the product.
"""
