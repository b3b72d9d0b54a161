"""Changes to lines of the engine's core, and of recordings, that no test can notice: {reason: {function: [change]}}.

`python -m tests.mutants` with `--engine` or `--recordings` fails if one is noticed after all, or is no longer there.
"""

EXPLAINED: dict[str, dict[str, list[str]]] = {
    "the other way gives the same, but takes longer": {
        "_gradients": ["rule if create_graph else provided.on_tensors(rule)  ->  rule"],
        "_fitted": [
            "if late or r.shape != edge.shape:  ->  if True:",
            "r if all((r.shape[d] == 1 for d in dims)) else r.sum(dims)  ->  r.sum(dims)",
        ],
        "walk": [
            "matters and _is_new(fitted, results, i, g, is_new, node)"
            "  ->  _is_new(fitted, results, i, g, is_new, node)",
            "complete_after(node, awaited) if awaited else ()  ->  complete_after(node, awaited)",
            "g._data.flags.c_contiguous or g._data.strides == leaf._data.strides"
            "  ->  g._data.flags.c_contiguous and g._data.strides == leaf._data.strides",
            "g._data.flags.c_contiguous or g._data.strides == leaf._data.strides"
            "  ->  g._data.strides == leaf._data.strides",
            "g._data.flags.c_contiguous or g._data.strides == leaf._data.strides  ->  g._data.flags.c_contiguous",
        ],
        "Op.__init__": [
            "'f' if self.dtype == 'float' else 'fi'  ->  'f'",
            "self.kinds or 'fi'  ->  self.kinds",
        ],
        "Op.reads_for": ["if needs not in self._reads:  ->  if True:"],
        "Op.__call__": [
            "if keywords:  ->  if True:",
            "self.kernel is not None and len(args) != len(self.params)  ->  self.kernel is not None",
            "self.kernel is not None and len(args) != len(self.params)"
            "  ->  self.kernel is not None or len(args) != len(self.params)",
            "self.kernel is not None and len(args) != len(self.params)  ->  len(args) != len(self.params)",
        ],
        "edges_to_awaited": [
            "[y.node for y in outputs if y.node is not None] if _ever else []"
            "  ->  [y.node for y in outputs if y.node is not None]",
            "if edge is not None and edge._awaited_by:  ->  if True:",
            "edge is not None and edge._awaited_by  ->  edge is not None",
        ],
        "between": [
            "x.node.time if x.node is not None else -1  ->  -1",
            "node not in reached and node.time >= oldest  ->  node not in reached",
        ],
    },
    "the kernel may write over what it is given, and need not": {
        "Op.__call__": ["self.quick(*args) if into is None else self.quick(*args, into=into)  ->  self.quick(*args)"],
    },
    "what is called asks so itself": {
        "Op.run": [
            "if now['watched']:  ->  if True:",
            "if grad and a._base is not None and (a._tracked != a._version.tracked):  ->  if True:",
            "grad and a._base is not None and (a._tracked != a._version.tracked)  ->  grad and a._base is not None",
        ],
    },
    "it is made what it is": {
        "_fitted": [
            "r if r.shape == edge.shape else r.reshape(edge.shape)  ->  r.reshape(edge.shape)",
            "r if r.dtype == edge.dtype else r.to(edge.dtype)  ->  r.to(edge.dtype)",
        ],
    },
    "a change is counted, by whatever number": {"Tensor.data": ["1  ->  2"]},
    "no time is below 0": {"between": ["1  ->  2", "1  ->  0"]},
    "the oldest input is among the useful ones before": {"between": ["node.time >= oldest  ->  node.time > oldest"]},
    "no walk goes beyond the inputs, whatever lies there": {
        "_through_definition": ["a[...] if create_graph else a.detach().requires_grad_()[...]  ->  a[...]"],
    },
    "no two times are equal": {
        "_fitted": ["edge._version.reshaped > node.time  ->  edge._version.reshaped >= node.time"],
    },
}

OF_RECORDINGS: dict[str, dict[str, list[str]]] = {
    "the other way gives the same, but takes longer": {
        "Recording.notice_gradient": ["if replaced:  ->  if False:", "seen.stand_in = None  ->  pass"],
    },
    "a program without launches does nothing": {"Recording.close": ["if rows:  ->  if True:"]},
    "a launch of no tasks has no entry: this number stands for nothing": {"Recording.close": ["0  ->  1"]},
}
