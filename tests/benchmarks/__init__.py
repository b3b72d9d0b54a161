"""What a training step costs here and in PyTorch and JAX, and what its parts cost: `python -m tests.benchmarks`.

To be read in this order: `rows` says what is measured and against whom, `peers` how each of them does the work,
`worker` times one of them in a process of its own, `measuring` starts such processes in turn, `report` makes tables of
what they found. A new row is one more entry in `rows.ROWS`.
"""
