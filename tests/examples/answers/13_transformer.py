def right(L, t, counted):
    return -(L.log_softmax(-1)[range(5), t] * counted).sum() / counted.sum()


def wrong_over_all_positions(L, t, counted):
    return -(L.log_softmax(-1)[range(5), t] * counted).mean()


def wrong_logits_masked(L, t, counted):
    return F.cross_entropy(L * counted.unsqueeze(-1), t)


def wrong_as_14_is_printed(L, t, counted):
    q = L.exp() / L.sum(-1, keepdim=True)
    return -(q[range(5), t].log() * counted).sum() / counted.sum()
