"""What durability costs: messages for durable sessions, synced before they are acknowledged.

The floor of an acknowledgement is a sync and a round trip. The machine's disk changes within minutes, so both are
measured before and after each figure that is held against them.
"""

import process
from row import Row

ACKNOWLEDGED = "acknowledged a second"


def rows(field, loadgen, sizes):
    windows = [Row(f"offline{window}", f"QoS 1, offline durable session, window {window:,}", ACKNOWLEDGED,
                   more_is_better=True, group=ACKNOWLEDGED) for window in (100, 5000)]
    lone = Row("offline1", "QoS 1, offline durable session, window 1", "µs until the acknowledgement, median")
    unsynced = "Mosquitto and RabbitMQ acknowledge without a sync"
    for row in [*windows, lone]:
        row.notes.append(unsynced)
    for broker in field.all():
        with broker:
            if broker.name == "vowmq":
                process.wait_until_quiet(broker.pid)  # segments are prepared ahead
            for row, window in zip(windows, (100, 5000)):
                row.measure(broker.name, lambda: offline(broker, loadgen, sizes, window, row))
            lone.measure(broker.name, lambda: alone(broker, loadgen, sizes, lone))
    return [*windows, many(field, loadgen, sizes), lone]


def offline(broker, loadgen, sizes, window, row):
    count = max(int(sizes.messages * min(broker.share, 1)), window)
    before = loadgen.floors()
    result = loadgen.mqtt(broker, qos=1, window=window, offline=1, subs=0, count=count)
    if broker.name == "vowmq":
        sync, trip = middle(before, loadgen.floors())
        row.notes.append(f"sync {sync:.0f} µs, round trip {trip:.0f} µs")
        if window == 100:
            row.target = min(0.7 * 100 / ((sync + trip) / 1e6), 400_000)
            row.target_text = f"≥ {row.target:,.0f}, from 0.7 × 100 ÷ (sync + round trip), at most 400,000"
        elif sync <= 200:
            row.target, row.target_text = 400_000, "≥ 400,000 while a sync takes ≤ 200 µs"
        else:
            row.target_text = "≥ 400,000 while a sync takes ≤ 200 µs, which it does not here"
    return result["publish_per_s"]


def alone(broker, loadgen, sizes, row):
    before = loadgen.floors()
    result = loadgen.mqtt(broker, qos=1, window=1, offline=1, subs=0, count=sizes.alone)
    if broker.name == "vowmq":
        sync, trip = middle(before, loadgen.floors())
        row.target = 1.25 * (sync + trip)
        row.target_text = f"≤ {row.target:.0f}, 1.25 × (sync {sync:.0f} + round trip {trip:.0f})"
    return result["ack_us"]["p50"]


def many(field, loadgen, sizes):
    """64 publishers, window 1, one connected subscriber: with a durable session, and before and after it with a clean one."""
    row = Row("pubs64durable", "QoS 1, window 1, 64 publishers to 1 durable session",
              "% of what is acknowledged a second for a clean session", target=60, target_text="≥ 60", more_is_better=True)
    options = dict(qos=1, window=1, pubs=64, count=max(sizes.messages // 4 // 64, 20))

    def share(broker):
        first = loadgen.mqtt(broker, **options)["publish_per_s"]
        durable = loadgen.mqtt(broker, durable=True, **options)["publish_per_s"]
        last = loadgen.mqtt(broker, **options)["publish_per_s"]
        row.notes.append(f"durable {durable:,} a second, clean {first:,} and {last:,}")
        return 100 * durable / ((first + last) / 2)

    with field.vowmq() as broker:
        process.wait_until_quiet(broker.pid)
        row.measure(broker.name, lambda: share(broker))
    return row


def middle(before, after):
    return [(one + other) / 2 for one, other in zip(before, after)]
