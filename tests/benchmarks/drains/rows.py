"""The rows that are measured, as NumPy columns: the same in every cache, file and memory."""

import numpy as np

PIXELS = 16


def small(count):
    """{A: int, B: double, NAME: string, PIX: float[16]}."""
    at = np.arange(count)
    return {
        "A": at.astype(np.int32),
        "B": at * 0.5,
        "NAME": [f"n{i}" for i in range(count)],
        "PIX": np.repeat(at.astype(np.float32)[:, None], PIXELS, axis=1),
    }


def wide(count, columns=100):
    """A hundred columns: every fourth an int, a long, a float, a double."""
    at = np.arange(count)
    kinds = [np.int32, np.int64, np.float32, np.float64]
    return {f"C{c:02d}": (at + c).astype(kinds[c % 4]) for c in range(columns)}


def images(count):
    """784 bytes and a label."""
    at = np.arange(count)
    pixels = ((at[:, None] + np.arange(784)[None, :]) % 251 - 125).astype(np.int8)
    return {"PIXELS": pixels, "LABEL": (at % 10).astype(np.int32)}


def ragged(count):
    """0 to 32 longs."""
    at = np.arange(count)
    lengths = at * 7919 % 33
    splits = np.concatenate([[0], np.cumsum(lengths)])
    return {"LABEL": (at % 10).astype(np.int32), "IDS": (np.arange(splits[-1], dtype=np.int64), splits)}
