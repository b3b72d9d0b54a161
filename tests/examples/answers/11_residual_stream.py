def right(x, z, r, dz):
    return r * (dz - z * (z * dz).mean())


def wrong_r_is_constant(x, z, r, dz):
    return r * dz


def wrong_layer_norm(x, z, r, dz):
    return r * (dz - dz.mean() - z * (z * dz).mean())
