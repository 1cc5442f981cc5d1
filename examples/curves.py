"""Signatures on the two curves of atproto, checked slowly."""

from hashlib import sha256

# Of P-256 and K-256: the field, a and b of the curve, its order and its generator.
P, K = 2**256 - 2**224 + 2**192 + 2**96 - 1, 2**256 - 2**32 - 977
P_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
P_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
P_G = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
K_N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
K_G = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
CURVES = {1: (P, P - 3, P_B, P_N, P_G), 2: (K, 0, 7, K_N, K_G)}


def number(data, order="big"):
    return int.from_bytes(data, order)


def point(data, p, a, b):
    x = number(data[1:])
    y = pow(x**3 + a * x + b, (p + 1) // 4, p)
    return x, (y if y % 2 == data[0] % 2 else p - y)


def add(one, other, p, a):
    if one is None or other is None or (one[0] == other[0] and (one[1] + other[1]) % p == 0):
        return one or other if one is None or other is None else None
    (x, y), (u, v) = one, other
    slope = (3 * x * x + a) * pow(2 * y, -1, p) if one == other else (v - y) * pow(u - x, -1, p)
    w = (slope * slope - x - u) % p
    return w, (slope * (x - w) - y) % p


def is_signed(message, key, signature):
    p, a, b, n, generator = CURVES[key[0]]
    r, s = number(signature[:32]), number(signature[32:])
    w, total = pow(s, -1, n), None
    z = number(sha256(message).digest())
    for times, base in ((z * w % n, bytes.fromhex(generator)), (r * w % n, key[1:])):
        doubled = point(base, p, a, b)
        while times:
            total = add(total, doubled, p, a) if times & 1 else total
            doubled, times = add(doubled, doubled, p, a), times >> 1
    return total is not None and total[0] % n == r and s <= n // 2
