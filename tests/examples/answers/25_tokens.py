import math
from collections import Counter
from itertools import pairwise


def right_1(n):
    """n // 2 pairs and perhaps a letter; then n // 4 pairs of pairs, perhaps a pair, and perhaps a letter."""
    return n // 4 + n // 2 % 2 + n % 2, 258


def wrong_1_without_what_is_left(n):
    return n // 4, 258


def wrong_1_rounded_up(n):
    return (n + 3) // 4, 258


def wrong_1_one_pair_each(n):
    return n - 2, 258


def wrong_1_after_the_first(n):
    return n // 2 + n % 2, 258


def wrong_1_three_letters(n):
    return n // 3 + n % 3, 258


def wrong_1_letters_alone(n):
    return n // 4 + n // 2 % 2 + n % 2, 3


def wrong_1_the_last_token_alone(n):
    return n // 4 + n // 2 % 2 + n % 2, 257


def right_2(text, pairs):
    """The second token of a pair stayed. A new list is simpler than one that gets shorter while it is read."""
    ids = text
    for new, pair in enumerate(pairs, 256):
        ids, old = [], ids
        for i in old:
            if ids and (ids[-1], i) == pair:
                ids[-1] = new
            else:
                ids.append(i)
    return ids


def right_2_in_place(text, pairs):
    """The same, with a place that stops where the list ends now."""
    ids = list(text)
    for new, pair in enumerate(pairs, 256):
        i = 0
        while i < len(ids) - 1:
            if (ids[i], ids[i + 1]) == pair:
                ids[i : i + 2] = [new]
            i += 1
    return ids


def right_2_as_strings(text, pairs):
    """Characters for tokens: `replace` goes from left to right, too."""
    row = "".join(map(chr, text))
    for new, pair in enumerate(pairs, 256):
        row = row.replace("".join(map(chr, pair)), chr(new))
    return [ord(each) for each in row]


def wrong_2_as_it_was(text, pairs):
    ids = list(text)
    for new, pair in enumerate(pairs, 256):
        for i in range(len(ids) - 1):
            if (ids[i], ids[i + 1]) == pair:
                ids[i] = new
    return ids


def wrong_2_runs_out_of_the_list(text, pairs):
    ids = list(text)
    for new, pair in enumerate(pairs, 256):
        for i in range(len(ids) - 1):
            if (ids[i], ids[i + 1]) == pair:
                ids[i : i + 2] = [new]
    return ids


def wrong_2_once(text, pairs):
    ids = list(text)
    for new, pair in enumerate(pairs, 256):
        for i in range(len(ids) - 1):
            if (ids[i], ids[i + 1]) == pair:
                ids[i : i + 2] = [new]
                break
    return ids


def wrong_2_last_merge_first(text, pairs):
    row = "".join(map(chr, text))
    for new in range(255 + len(pairs), 255, -1):
        row = row.replace("".join(map(chr, pairs[new - 256])), chr(new))
    return [ord(each) for each in row]


def wrong_2_first_merge_alone(text, pairs):
    return right_2(text, pairs[:1])


def right_3(loss, n, N, m):
    """All of the text costs n · loss nats, n · loss / ln 2 bits; the second model has to spend as much on N tokens."""
    return n * loss / math.log(2) / m, n * loss / N


def wrong_3_nats(loss, n, N, m):
    return n * loss / m, n * loss / N


def wrong_3_times_log_2(loss, n, N, m):
    return n * loss / m * math.log(2), n * loss / N


def wrong_3_a_token(loss, n, N, m):
    return loss / math.log(2), n * loss / N


def wrong_3_bytes_by_tokens(loss, n, N, m):
    return m * loss / math.log(2) / n, n * loss / N


def wrong_3_shorter_is_less(loss, n, N, m):
    return n * loss / math.log(2) / m, N * loss / n


def wrong_3_the_same_loss(loss, n, N, m):
    return n * loss / math.log(2) / m, loss


def right_4(words, count):
    """The pairs of each word are counted, and merged in each word. min finds the smallest of −count and pair."""
    pairs = []
    for new in range(256, 256 + count):
        counts = Counter(pair for word in words for pair in pairwise(word))
        pairs.append(min(counts, key=lambda pair: (-counts[pair], pair)))
        words = [one_merge(word, pairs[-1], new) for word in words]
    return pairs


def one_merge(word, pair, new):
    """One merge in one word."""
    row = "".join(map(chr, word)).replace("".join(map(chr, pair)), chr(new))
    return [ord(each) for each in row]


def right_4_with_a_blank(words, count):
    """The words in one list, with −1 between them: no pair with it is counted."""
    row, pairs = [i for word in words for i in [-1, *word]], []
    for new in range(256, 256 + count):
        counts = Counter(pair for pair in pairwise(row) if -1 not in pair)
        pairs.append(sorted(counts.items(), key=lambda each: (-each[1], each[0]))[0][0])
        merged = []
        for i in row:
            merged.append(i)
            if (*merged[-2:],) == pairs[-1]:
                merged[-2:] = [new]
        row = merged
    return pairs


def wrong_4_across_words(words, count):
    return right_4([[i for word in words for i in word]], count)


def wrong_4_each_word_once(words, count):
    return right_4([list(word) for word in dict.fromkeys(map(tuple, words))], count)


def wrong_4_the_largest(words, count):
    pairs = []
    for new in range(256, 256 + count):
        counts = Counter(pair for word in words for pair in pairwise(word))
        pairs.append(max(counts, key=lambda pair: (counts[pair], pair)))
        words = [one_merge(word, pairs[-1], new) for word in words]
    return pairs


def wrong_4_the_first(words, count):
    pairs = []
    for new in range(256, 256 + count):
        counts = Counter(pair for word in words for pair in pairwise(word))
        pairs.append(counts.most_common(1)[0][0])
        words = [one_merge(word, pairs[-1], new) for word in words]
    return pairs


def wrong_4_counted_once(words, count):
    counts = Counter(pair for word in words for pair in pairwise(word))
    return sorted(counts, key=lambda pair: (-counts[pair], pair))[:count]
