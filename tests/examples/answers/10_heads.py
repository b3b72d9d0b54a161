def right_1(D, H):
    """W_q, W_k and W_v of all heads are H (D, K) = (D, D) each, and so is W; each of the four has D biases."""
    return 4 * D * D + 4 * D


def wrong_1_no_biases(D, H):
    return 4 * D * D


def wrong_1_each_head_is_wide(D, H):
    return 3 * H * (D * D + D) + D * D + D


def wrong_1_one_head(D, H):
    K = D // H
    return 3 * (D * K + K) + D * D + D


def right_2(Q, H):
    """The numbers of a row belong to one word: split the row into heads first, then change the two dimensions."""
    return Q.reshape(Q.shape[0], H, -1).transpose(0, 1)


def wrong_2_components_first(Q, H):
    return Q.reshape(Q.shape[0], -1, H).permute(2, 0, 1)


def wrong_2_not_exchanged(Q, H):
    return Q.reshape(Q.shape[0], H, -1)


def wrong_2_of_the_transposed(Q, H):
    return Q.mT.reshape(H, Q.shape[0], -1)


def right_3(n, H):
    """H averages determine H of n independent directions. The other n - H are lost, each with variance 1."""
    return max(0, n - H) / n


def wrong_3_always_half(n, H):
    return 0.5 if H == 1 else 0.0


def wrong_3_one_divided_by_heads(n, H):
    return 1 / (H + 1)


def wrong_3_one_head_only(n, H):
    return (n - 1) / n


def wrong_3_negative(n, H):
    return (n - H) / n


def right_4(Q, K, V):
    """With a dimension for the heads of a group, (G, H / G, n, d), keys and values (G, 1, n, d) are broadcast."""
    G = K.shape[0]
    Q_g = Q.unflatten(0, (G, -1))
    w = (Q_g @ K.unsqueeze(1).mT / math.sqrt(Q.shape[-1])).softmax(-1)
    return (w @ V.unsqueeze(1)).flatten(0, 1)


def right_4_repeated(Q, K, V):
    """Another way: repeat each group's keys and values for its heads. It needs the memory that was to be saved."""
    K, V = (x.repeat_interleave(Q.shape[0] // K.shape[0], 0) for x in (K, V))
    return (Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(-1) @ V


def wrong_4_groups_in_turn(Q, K, V):
    share = Q.shape[0] // K.shape[0]
    K, V = (x.repeat(share, 1, 1) for x in (K, V))
    return (Q @ K.mT / math.sqrt(Q.shape[-1])).softmax(-1) @ V


def wrong_4_only_the_first_group(Q, K, V):
    return (Q @ K[:1].mT / math.sqrt(Q.shape[-1])).softmax(-1) @ V[:1]


def wrong_4_one_head_for_each_group(Q, K, V):
    return (Q[: K.shape[0]] @ K.mT / math.sqrt(Q.shape[-1])).softmax(-1) @ V


def wrong_4_not_scaled(Q, K, V):
    return right_4(Q * math.sqrt(Q.shape[-1]), K, V)


def wrong_4_scaled_by_the_width_of_all_heads(Q, K, V):
    return right_4(Q / math.sqrt(Q.shape[0]), K, V)
