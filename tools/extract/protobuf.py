"""to come"""


def read() -> dict:
    return {}
