def right(logits, y):
    return ((logits > 0) == (y == 1)).to(tt.float32).mean().item()


def wrong_threshold_of_a_probability(logits, y):
    return ((logits > 0.5) == (y == 1)).to(tt.float32).mean().item()


def wrong_share_of_ones(logits, y):
    return (logits > 0).to(tt.float32).mean().item()
