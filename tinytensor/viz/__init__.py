"""Looking at what the engine does: the backward pass in words, as a graph, and step by step.

Nothing here computes a gradient. What is shown was computed by the tape itself, which is watched while it walks.
`import tinytensor` does not load this package; `pip install tinytensor[viz]` brings what pictures need.
"""
