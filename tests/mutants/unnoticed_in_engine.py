"""Changes to lines of the engine's core that no test can notice, with the reason: {reason: {function: [change]}}.

`python -m tests.mutants --engine` fails if one of them is noticed after all, or is no longer there.
"""

EXPLAINED: dict[str, dict[str, list[str]]] = {}
