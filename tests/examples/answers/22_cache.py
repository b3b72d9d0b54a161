import math

import tinytensor as tt


def right_1(m, n):
    """Without a cache m + (m + 1) + ... + (m + n − 1); with one m, and a row for each word but the last."""
    return n * m + n * (n - 1) // 2, m + n - 1


def wrong_1_last_word_is_read(m, n):
    return n * m + n * (n - 1) // 2 + m + n, m + n


def wrong_1_last_row(m, n):
    return n * m + n * (n - 1) // 2, m + n


def wrong_1_begins_with_one_more(m, n):
    return n * m + n * (n + 1) // 2, m + n - 1


def wrong_1_only_the_question(m, n):
    return n * m, m + n - 1


def wrong_1_without_the_question(m, n):
    return n * (n - 1) // 2, m + n - 1


def wrong_1_all_words_each_time(m, n):
    return n * (m + n), m + n - 1


def wrong_1_one_row_each(m, n):
    return n * m + n * (n - 1) // 2, n


def right_2(read, question, n):
    """At first the question is new; then only the word that was written last is."""
    words, new = [], question
    for _ in range(n):
        new = [read(new)]
        words += new
    return words


def right_2_word_by_word(read, question, n):
    """Slower: the question, too, goes to the cache one word at a time."""
    for word in question:
        following = read([word])
    words = [following]
    while len(words) < n:
        words.append(read(words[-1:]))
    return words


def wrong_2_as_it_was(read, question, n):
    text = list(question)
    for _ in range(n):
        text.append(read(text))
    return text[len(question) :]


def wrong_2_all_written_words(read, question, n):
    words = [read(question)]
    while len(words) < n:
        words.append(read(words))
    return words


def wrong_2_question_is_not_read(read, question, n):
    text = list(question)
    for _ in range(n):
        text.append(read(text[-1:]))
    return text[len(question) :]


def wrong_2_last_word_twice(read, question, n):
    read(question)
    text = list(question)
    for _ in range(n):
        text.append(read(text[-1:]))
    return text[len(question) :]


def wrong_2_with_the_question(read, question, n):
    return question + right_2(read, question, n)


def right_3(C, j):
    """In j words: C − j + 1 rows for the jump, j − 1 for the others: C. The window has C − j + 1, ..., C words."""
    return C / j, C - (j - 1) / 2


def wrong_3_no_new_word(C, j):
    return (C - 1) / j, C - (j + 1) / 2


def wrong_3_only_jumps(C, j):
    return (C - j + 1) / j, C - (j - 1) / 2


def wrong_3_a_jump(C, j):
    return C - j + 1, C - (j - 1) / 2


def wrong_3_after_a_jump(C, j):
    return C / j, C - j + 1


def wrong_3_before_a_jump(C, j):
    return C / j, C


def wrong_3_half_of_j(C, j):
    return C / j, C - j / 2


def right_4(q, k, v, keys, values):
    """Row i is word m + i, so m + i is the last column that it sees: the triangle begins m columns further right."""
    keys, values = tt.cat([keys, k]), tt.cat([values, v])
    S = q @ keys.T / math.sqrt(q.shape[1])
    later = tt.ones(S.shape).triu(1 + S.shape[1] - S.shape[0]) > 0
    return S.masked_fill(later, -math.inf).softmax(-1) @ values, keys, values


def right_4_word_by_word(q, k, v, keys, values):
    """Slower: each new word goes to the cache, and then looks at all of it. No mask is needed."""
    Y = []
    for i in range(len(q)):
        keys, values = tt.cat([keys, k[i : i + 1]]), tt.cat([values, v[i : i + 1]])
        Y.append((keys @ q[i] / math.sqrt(q.shape[1])).softmax(0) @ values)
    return tt.stack(Y), keys, values


def wrong_4_triangle_not_shifted(q, k, v, keys, values):
    keys, values = tt.cat([keys, k]), tt.cat([values, v])
    S = q @ keys.T / math.sqrt(q.shape[1])
    return S.masked_fill(tt.ones(S.shape).triu(1) > 0, -math.inf).softmax(-1) @ values, keys, values


def wrong_4_no_mask(q, k, v, keys, values):
    keys, values = tt.cat([keys, k]), tt.cat([values, v])
    return (q @ keys.T / math.sqrt(q.shape[1])).softmax(-1) @ values, keys, values


def wrong_4_no_scale(q, k, v, keys, values):
    keys, values = tt.cat([keys, k]), tt.cat([values, v])
    later = tt.ones(len(q), len(keys)).triu(1 + len(keys) - len(q)) > 0
    return (q @ keys.T).masked_fill(later, -math.inf).softmax(-1) @ values, keys, values


def wrong_4_only_new_words(q, k, v, keys, values):
    later = tt.ones(len(q), len(q)).triu(1) > 0
    Y = (q @ k.T / math.sqrt(q.shape[1])).masked_fill(later, -math.inf).softmax(-1) @ v
    return Y, tt.cat([keys, k]), tt.cat([values, v])


def wrong_4_cache_as_before(q, k, v, keys, values):
    return right_4(q, k, v, keys, values)[0], keys, values


def wrong_4_new_words_in_front(q, k, v, keys, values):
    return right_4(q, k, v, keys, values)[0], tt.cat([k, keys]), tt.cat([v, values])


def wrong_4_later_weights_set_to_0(q, k, v, keys, values):
    keys, values = tt.cat([keys, k]), tt.cat([values, v])
    weights = (q @ keys.T / math.sqrt(q.shape[1])).softmax(-1)
    return weights.tril(len(keys) - len(q)) @ values, keys, values
