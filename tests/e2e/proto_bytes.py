"""Protobuf by hand: fields that no generated message would write."""


def varint(n):
    n &= (1 << 64) - 1
    out = b''
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def pb(number, value):
    """One field: int as a varint, bytes and str with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value
