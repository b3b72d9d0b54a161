"""Changes to lines of tinytensor/nn that no test can notice, with the reason: {reason: {function: [change]}}.

The form is that of explained.py. `python -m tests.mutants --modules` fails if an entry is not needed any more.
"""

EXPLAINED: dict[str, dict[str, list[str]]] = {
    "it is reshaped to what it is": {
        "_classes_last": [
            "if x.ndim == 2:  ->  if False:",
            "x.ndim > 2  ->  x.ndim >= 2",
            "2  ->  1  in  if x.ndim > 2:",
        ],
        "cross_entropy": ["target if ...  ->  target.reshape((-1,))"],
        "_over_last": ["if n == 1:  ->  if False:", "1  ->  0  in  if n == 1:"],
        "scaled_dot_product_attention": ["y if len(batch) == 2 else ...  ->  y.reshape..."],
    },
    "what stands alone is joined to nothing, and what is joined to it is empty": {
        "_Recurrent._layers": ["...if self.bidirectional else sides[0]  ->  cat(sides, -1)"],
        "conv1d": ["if p:  ->  if True:"],
    },
    "no number is drawn within the bound": {"_uniform": ["0  ->  1  in  ...if module.hidden_size else 0"]},
    "scores of width 0 are 0, whatever they are multiplied by": {"_scale": ["1  ->  2  in  ...query.shape[-1]... (2)"]},
    "there are no rows, whose length may be any": {"_classes_last": ["0  ->  1  in  ...x.reshape((0, 0))... (2)"]},
    "rows of classes have two dimensions, of which the second is the last": {
        "cross_entropy": ["-1  ->  1  in  ...log_softmax(rows, -1)..."],
        "_cross_entropy_of_probabilities": [
            "-1  ->  1  in  ...log_softmax(_classes_last(input), -1)...",
            "-1  ->  1  in  ...(terms if weight is None else terms * weight).sum(-1)...",
        ],
    },
    "without smoothing it adds 0": {"_cross_entropy_of_probabilities": ["if label_smoothing:  ->  if True:"]},
    "the same number, asked whether it is whole": {"_ignored": ["ignore_index if ...  ->  ...whole..."]},
    "what does not broadcast is refused by the subtraction, too": {
        "kl_div": ["...('kl_div', input.shape, target.shape)  ->  pass"]
    },
    "what stands for it is multiplied by 0": {"kl_div": ["1  ->  2  in  ...where(target == 0, 1, target)..."]},
    "targets are 1 and -1, by which to divide is to multiply": {
        "soft_margin_loss": ["input * target...  ->  input / target..."]
    },
    "here it is training, or nothing is followed": {
        "BatchNorm1d.forward": ["self.training and ...  ->  self.track_running_stats"]
    },
    "a module has all of these dictionaries, or none": {"Module.__setattr__": ["0  ->  1  in  ...registries[0]..."]},
    "what is copied is the same, copied once or twice": {"Module.load_state_dict": ["v if ...  ->  tensor(v)"]},
    "what asks for no gradient passes as it is": {
        "backward_hooks": ["...if asks else args  ->  _Passage.apply(way_in, *args)"]
    },
    "NumPy finds the size for which any negative number stands": {
        "_sum_of_squares": ["1  ->  2  in  ...contiguous(ordered...reshape(-1)..."]
    },
    "the norm of norms is the same, and takes longer": {"get_total_norm": ["if norm_type == 2:  ->  if False:"]},
    "a truth, or itself, is itself": {"MultiheadAttention._mask": ["1  ->  0  in  ...masks[1:]..."]},
}
