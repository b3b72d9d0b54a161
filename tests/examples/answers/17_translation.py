def right(outputs):
    return tt.cat([tt.full_like(outputs[:, :1], BEGIN), outputs[:, :-1]], dim=1)


def wrong_not_shifted(outputs):
    return outputs


def wrong_rolled(outputs):
    return outputs.roll(1, 1)


def wrong_one_longer(outputs):
    return tt.cat([tt.full_like(outputs[:, :1], BEGIN), outputs], dim=1)
