"""Changes to lines of the engine's core that no test can notice, with the reason: {reason: {function: [change]}}.

`python -m tests.mutants --engine` fails if one of them is noticed after all, or is no longer there.
"""

EXPLAINED: dict[str, dict[str, list[str]]] = {
    "the other way gives the same, but takes longer": {
        "_gradients": ["rule if create_graph else on_tensors(rule)  ->  rule"],
        "walk": [
            "matters and (fitted is not r or _is_new(results, i, g, is_new, node))"
            "  ->  fitted is not r or _is_new(results, i, g, is_new, node)",
            "complete_after(node, awaited) if awaited else ()  ->  complete_after(node, awaited)",
        ],
    },
    "it is made what it is": {
        "_fitted": [
            "r if r.shape == edge.shape else r.reshape(edge.shape)  ->  r.reshape(edge.shape)",
            "r if r.dtype == edge.dtype else r.to(edge.dtype)  ->  r.to(edge.dtype)",
        ],
    },
    "no two times are equal": {
        "_fitted": ["edge._version.reshaped > node.time  ->  edge._version.reshaped >= node.time"],
    },
}
