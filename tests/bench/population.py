"""Subscriptions in any number, shaped as those of a fleet; `core/benches/driver/population.rs` makes the same."""

SITES = 1000


def topic(device):
    return f"site/{device % SITES}/device/{device}/state"


def filter_at(index, size):
    """The filter with this index of `size` in all, a multiple of 10."""
    device, kind = divmod(index, 10)
    if kind == 0:
        return f"site/+/device/{device}/state"
    if kind == 1:
        return f"site/{device % SITES}/device/{device}/#"
    return topic((kind - 2) * (size // 10) + device)


def topics(size, count):
    """Topics that exactly three filters match, one of each shape, spread over all of them."""
    return [topic(number * 7919 % (size // 10)) for number in range(count)]
