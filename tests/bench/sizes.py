"""How much work each measurement does."""

from dataclasses import dataclass, field


@dataclass
class Sizes:
    """`messages` is the measure of the rows that cost processor time; a slow broker does a share of it."""

    messages: int = 400_000
    alone: int = 5_000
    backlog: int = 10_000_000
    backlog_of_others: int = 300_000
    stall_backlog: int = 1_000_000
    stall_messages: int = 60_000
    subscriptions: int = 1_000_000
    routed: int = 300_000
    connections: tuple = (10_000, 15_000)
    large: dict = field(
        default_factory=lambda: {
            "subscriptions": (1_000, 10_000, 100_000, 1_000_000),
            "sessions": (1_000, 10_000, 100_000),
            "retained": (1_000, 10_000, 100_000, 1_000_000),
        }
    )
    large_connections: tuple = (1_000, 5_000, 10_000, 15_000)


def quick():
    """So little that only the machinery is tried; the figures say nothing."""
    return Sizes(
        messages=10_000, alone=500, backlog=50_000, backlog_of_others=10_000, stall_backlog=20_000, stall_messages=8_000,
        subscriptions=10_000, routed=20_000, connections=(500,), large_connections=(100, 500),
        large={"subscriptions": (1_000, 10_000), "sessions": (1_000, 2_000), "retained": (1_000, 10_000)},
    )
