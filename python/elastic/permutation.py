"""The order of an epoch, computed index by index.

A Feistel network over the pairs (left, right) with 0 <= left < a and 0 <= right < b is
a permutation of the a*b pairs, whatever its round function is. The smallest such
rectangle that holds n numbers has less than 2*sqrt(n) + 1 to spare, and a value that
falls outside of n is sent through the network again until it falls inside (cycle
walking), so the result is a permutation of exactly n.

Nothing is stored: index i of an epoch of a billion samples costs the same as of ten.
"""

from __future__ import annotations

from math import isqrt

_MASK = (1 << 64) - 1
_ROUNDS = 6


def mix(value: int) -> int:
    """Scramble 64 bits (the finalizer of SplitMix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Permutation:
    """The order of 0..n-1 that belongs to a seed and an epoch."""

    def __init__(self, n: int, seed: int, epoch: int) -> None:
        self._n = n
        self._a = isqrt(n - 1) + 1
        self._b = -(-n // self._a)
        key = mix(mix(seed & _MASK) ^ (epoch & _MASK))
        self._keys = [mix((key + number) & _MASK) for number in range(_ROUNDS)]

    def __getitem__(self, position: int) -> int:
        a, b, keys = self._a, self._b, self._keys
        index = position
        while True:
            left, right = divmod(index, b)
            for number in range(0, _ROUNDS, 2):
                left = (left + mix(right ^ keys[number])) % a
                right = (right + mix(left ^ keys[number + 1])) % b
            index = left * b + right
            if index < self._n:
                return index
