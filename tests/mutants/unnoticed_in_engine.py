"""Changes to lines of the engine's core, and of recordings, that no test can notice: {reason: {function: [change]}}.

The form is that of explained.py. `python -m tests.mutants` with `--engine` or `--recordings` fails if an entry is not
needed any more.
"""

EXPLAINED: dict[str, dict[str, list[str]]] = {
    "the other way gives the same, but takes longer": {
        "_gradients": ["rule if create_graph or batch else ...  ->  rule"],
        "_unbroadcast": ["if late or r.shape != edge.shape:  ->  if True:", "r if ...  ->  r.sum(dims)"],
        "_Accumulator.propagate": ["matters and ...  ->  _is_owned..."],
        "accumulate_grad": ["g._data.flags.c_contiguous or ...  ->  ..."],
        "Op.__init__": [
            "'f' if self.dtype == 'float' else 'fi'  ->  'f'",
            "self.dtype_kinds or 'fi'  ->  self.dtype_kinds",
        ],
        "Op.saved_values_for": ["if needs not in self._saved_values:  ->  if True:"],
        "Op.__call__": [
            "if keywords:  ->  if True:",
            "if self.kernel is not None and ...:  ->  if True:",
            "self.kernel is not None and len(args) != len(self.params)  ->  ...",
        ],
        "completed_by": ["partial(_leaves_done_after, edges) if edges else None  ->  partial(...)"],
        "_edges_to_awaited_leaves": [
            "...if _ever else []  ->  [y.node...",
            "if edge...:  ->  if True:",
            "edge is not None and edge._post_accumulate_grad_hooks  ->  edge is not None",
        ],
        "between": [
            "x.node.generation if x.node is not None else -1  ->  -1",
            "node not in reached and ...  ->  node not in reached",
        ],
    },
    "the kernel may write over what it is given, and need not": {
        "Op.__call__": ["self.quick(*args) if ...  ->  self.quick(*args)"]
    },
    "what is called asks so itself": {
        "Op.run": [
            "if now['watched']:  ->  if True:",
            "if grad and a._base...:  ->  if True:",
            "grad and a._base is not None and ...  ->  grad and a._base is not None",
        ]
    },
    "it is made what it is": {
        "_unbroadcast": ["r if ...  ->  r.reshape(edge.shape)", "r if ...  ->  r.to(edge.dtype)"]
    },
    "a change is counted, by whatever number": {"Tensor.data": ["1  ->  2  in  self._version.count += 1"]},
    "no time is below 0": {"between": ["1  ->  ...  in  ...x.node.generation if x.node is not None else -1..."]},
    "the oldest input is among the useful ones before": {
        "between": ["node.generation >= oldest  ->  node.generation > oldest"]
    },
    "no walk goes beyond the inputs, whatever lies there": {"_through_definition": ["a[...]...  ->  a[...]"]},
    "no two times are equal": {"_unbroadcast": ["edge._version.reshaped > ...  ->  edge._version.reshaped >= ..."]},
}

OF_RECORDINGS: dict[str, dict[str, list[str]]] = {
    "the other way gives the same, but takes longer": {
        "Recording.notice_gradient": ["if replaced:  ->  if False:", "seen.stand_in = None  ->  pass"]
    },
    "a program without launches does nothing": {"Recording._parts": ["if rows:  ->  if True:"]},
    "a launch of no tasks has no entry: this number stands for nothing": {
        "Recording._parts": ["0  ->  1  in  rows.append((0, how.ctypes.data, 0))"]
    },
}
