def right_1(z, a, b):
    """b goes with the mean, which is subtracted; |a| goes with the deviation, the divisor; the sign of a is left."""
    return z if a > 0 else -z


def wrong_1_not_normalised(z, a, b):
    return a * z + b


def wrong_1_without_the_sign(z, a, b):
    return z


def right_2(X, sublayers):
    """The sublayer reads the normalised stream, but adds to the stream as it was."""
    for f in sublayers:
        X = X + f(F.layer_norm(X, X.shape[-1:]))
    return X


def wrong_2_norm_after_the_sum(X, sublayers):
    for f in sublayers:
        X = F.layer_norm(X + f(X), X.shape[-1:])
    return X


def wrong_2_without_the_sum(X, sublayers):
    for f in sublayers:
        X = f(F.layer_norm(X, X.shape[-1:]))
    return X


def wrong_2_normalised_once(X, sublayers):
    Z = F.layer_norm(X, X.shape[-1:])
    for f in sublayers:
        X = X + f(Z)
    return X


def right_3(x, z, r, dz):
    """dr = -r³ ⟨x dx⟩, so z changes by r dx - r x r² ⟨x dx⟩ = r (dx - z ⟨z dx⟩): backward it is the same formula."""
    return r * (dz - z * (z * dz).mean())


def wrong_3_r_is_constant(x, z, r, dz):
    return r * dz


def wrong_3_layer_norm(x, z, r, dz):
    return r * (dz - dz.mean() - z * (z * dz).mean())


def wrong_3_a_sum_for_the_mean(x, z, r, dz):
    return r * (dz - z * (z * dz).sum())


def right_4(parts, o):
    """Subtract from each part its own mean; divide all by the deviation of the sum, which is one number."""
    deviation = parts.sum(0).var(unbiased=False).sqrt()
    return (parts - parts.mean(1, keepdim=True)) @ o / deviation


def wrong_4_each_normalised_alone(parts, o):
    return F.layer_norm(parts, parts.shape[-1:], eps=0.0) @ o


def wrong_4_no_norm(parts, o):
    return parts @ o


def wrong_4_equal_shares(parts, o):
    logit = F.layer_norm(parts.sum(0), parts.shape[-1:], eps=0.0) @ o
    return logit.expand(len(parts)) / len(parts)


def wrong_4_mean_of_all(parts, o):
    total = parts.sum(0)
    return (parts - total.mean() / len(parts)) @ o / total.var(unbiased=False).sqrt()
