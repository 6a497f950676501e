#!/usr/bin/env python3
"""The embedded model's forward pass once more, in plain Python and double precision, for the golden vector of
tests/policy/embedded_model_test.cpp. Prints the normed output of the last token and the logit of token 4."""
import math

VOCABULARY, SEGMENTS, LAYERS, WIDTH, HEADS, HIDDEN = 11, 3, 2, 8, 2, 12
TOKENS, SEGMENT_OF = [3, 10, 0, 7], [0, 1, 1, 2]

taken = 0


def take(rows, columns=None):
    """The next weights of the flat vector, as a row or as a matrix."""
    global taken
    count = rows * (columns or 1)
    values = [0.5 * math.sin(0.37 * i + 0.1) for i in range(taken, taken + count)]
    taken += count
    if columns is None:
        return values
    return [values[r * columns:(r + 1) * columns] for r in range(rows)]


def times(vector, matrix):
    return [sum(v * row[j] for v, row in zip(vector, matrix)) for j in range(len(matrix[0]))]


def norm(vector, gain):
    scale = 1 / math.sqrt(sum(v * v for v in vector) / len(vector) + 1e-5)
    return [v * scale * g for v, g in zip(vector, gain)]


embedding, segment = take(VOCABULARY, WIDTH), take(SEGMENTS, WIDTH)
x = [[e + s for e, s in zip(embedding[t], segment[g])] for t, g in zip(TOKENS, SEGMENT_OF)]
for _ in range(LAYERS):
    norm1, qkv_weights, out = take(WIDTH), take(WIDTH, 3 * WIDTH), take(WIDTH, WIDTH)
    norm2, up, down = take(WIDTH), take(WIDTH, HIDDEN), take(HIDDEN, WIDTH)
    qkv = [times(norm(row, norm1), qkv_weights) for row in x]
    size = WIDTH // HEADS
    for t in range(len(x)):
        mixed = []
        for h in range(HEADS):
            at = h * size
            query = qkv[t][at:at + size]
            scores = [sum(q * k for q, k in zip(query, qkv[s][WIDTH + at:WIDTH + at + size])) / math.sqrt(size)
                      for s in range(t + 1)]
            shares = [math.exp(s - max(scores)) for s in scores]
            total = sum(shares)
            mixed += [sum(share / total * qkv[s][2 * WIDTH + at + j] for s, share in enumerate(shares))
                      for j in range(size)]
        x[t] = [a + b for a, b in zip(x[t], times(mixed, out))]
    for t, row in enumerate(x):
        hidden = [v / (1 + math.exp(-v)) for v in times(norm(row, norm2), up)]
        x[t] = [a + b for a, b in zip(row, times(hidden, down))]
output = norm(x[-1], take(WIDTH))
print("output", ", ".join(f"{v:.8f}" for v in output))
print("logit ", f"{sum(o * e for o, e in zip(output, embedding[4])):.8f}")
