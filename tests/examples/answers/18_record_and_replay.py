def right_1(calls):
    """One for each shape and number that comes together: pairs that come again find their recording."""
    return len(set(calls))


def wrong_1_one_for_each_call(calls):
    return len(calls)


def wrong_1_shapes_alone(calls):
    return len({n for n, _ in calls})


def wrong_1_rates_alone(calls):
    return len({rate for _, rate in calls})


def right_2(x):
    """tinytensor's own generator is called again at each replay; Python's is not."""
    return x + tt.randn(x.shape)


def wrong_2_as_it_was(x):
    return x + tt.tensor([random.gauss(0, 1) for _ in range(len(x))])


def wrong_2_one_number_for_all(x):
    return x + tt.randn(())


def wrong_2_uniform(x):
    return x + tt.rand(x.shape)


def right_3(e, r, p):
    """n e > r + (n − 1) p means n > (r − p) / (e − p): the next whole number above it."""
    return None if p >= e else max(1, (r - p) // (e - p) + 1)


def wrong_3_rounded_up(e, r, p):
    return None if p >= e else -(-(r - p) // (e - p))


def wrong_3_the_recording_is_no_step(e, r, p):
    return None if p >= e else r // (e - p) + 1


def wrong_3_never_is_a_number(e, r, p):
    return 10**9 if p >= e else (r - p) // (e - p) + 1


def right_4(gradients):
    """1 / length is at least 1 for short ones, and infinite for 0: `clamp` makes 1 of it. The sum joins the lengths."""
    length = sum(g.square().sum() for g in gradients).sqrt()
    return [g * (1 / length).clamp(max=1.0) for g in gradients]


def wrong_4_item(gradients):
    length = sum(g.square().sum() for g in gradients).sqrt()
    return [g / length if length.item() > 1 else g for g in gradients]


def wrong_4_always(gradients):
    length = sum(g.square().sum() for g in gradients).sqrt()
    return [g / length for g in gradients]


def wrong_4_each_by_itself(gradients):
    return [g * (1 / g.norm()).clamp(max=1.0) for g in gradients]


def wrong_4_entries(gradients):
    return [g.clamp(-1.0, 1.0) for g in gradients]
