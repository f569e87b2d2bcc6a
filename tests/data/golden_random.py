"""Counter-based random numbers of the golden files: Philox4x32-10 [Salmon11] in numpy.

Written independently of planner/core/philox.h and random.h, which the golden files check. A stream
is named by a text (tensor or "data") and a role; README.md has the layout of the counter.
"""

import numpy as np

INIT_ROLE, DATA_ROLE, MASK_ROLE = 0, 1, 2  # last counter word, keeps the streams apart


def philox4x32(counter, key):
    """Philox4x32-10 [Salmon11]: four uint64 arrays of words, two key words -> four arrays."""
    mask, low = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> low) ^ c[1] ^ np.uint64(k0),
            p1 & mask,
            (p0 >> low) ^ c[3] ^ np.uint64(k1),
            p0 & mask,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def fnv1a32(name):
    """FNV-1a, 32 bit: the identity of a tensor or stream in a counter."""
    value = 0x811C9DC5
    for byte in name.encode("ascii"):
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def draw(indices, name, role, seed):
    """The four Philox words of each 64-bit index in the stream (name, role)."""
    index = np.asarray(indices, dtype=np.uint64)
    tag = np.full_like(index, fnv1a32(name))
    counter = (
        index & np.uint64(0xFFFFFFFF),
        index >> np.uint64(32),
        tag,
        np.full_like(index, role),
    )
    return philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))


def normal(count, name, seed):
    """Standard normal values of elements 0 .. count-1 by Box-Muller, cosine branch only."""
    x0, x1 = draw(np.arange(count), name, INIT_ROLE, seed)[:2]
    u1, u2 = ((x.astype(np.float64) + 0.5) / 2.0**32 for x in (x0, x1))
    return np.sqrt(-2.0 * np.log(u1)) * np.cos(2.0 * np.pi * u2)


def masked(text, samples, vocabulary, seed):
    """Inputs and targets of rows [n, s] of samples, as BERT is trained [Devlin19 A.1].

    Of each row the 15 % of tokens with the least first two words are the targets, -1 stands beside
    them; in the inputs eight of ten are the last token of the vocabulary, one of ten is any token.
    """
    inputs, targets = text.astype(np.int64), np.full(text.shape, -1, dtype=np.int64)
    places = np.arange(text.shape[1], dtype=np.uint64)
    for row, sample in enumerate(int(s) for s in samples):
        low, high = (np.full_like(places, word) for word in (sample & 0xFFFFFFFF, sample >> 32))
        counter = (low, high, places, np.full_like(places, MASK_ROLE))
        x = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))
        order = np.argsort(x[0] | (x[1] << np.uint64(32)), kind="stable")
        for place in order[: max(1, text.shape[1] * 15 // 100)]:
            targets[row, place] = text[row, place]
            kind = int(x[2][place]) % 10
            if kind < 8:
                inputs[row, place] = vocabulary - 1
            elif kind == 9:
                inputs[row, place] = int(x[3][place]) % vocabulary
    return inputs, targets


def check_generator():
    """Known answers: Random123 kat_vectors (philox4x32, 10 rounds), FNV-1a reference values."""
    ones = 0xFFFFFFFF
    answers = [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones, ones), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for counter, key, expected in answers:
        assert tuple(int(word) for word in philox4x32(counter, key)) == expected, counter
    for name, expected in (("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)):
        assert fnv1a32(name) == expected, name
