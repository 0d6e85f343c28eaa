"""Whether acknowledgements stay quick while the broker checkpoints and compacts.

The same work runs twice, with many messages already queued: on segments so small that it crosses dozens of them, and on
segments so large that it stays in one. Beside the load, which is settled at once and leaves dead segments, a second client
trickles messages for a session that is away: the live ones that compaction has to move.
"""

import threading

import process
import wire
from row import Row

SMALL = ("segment_bytes=4 MiB", "limits.packet_bytes=1 MiB")
LARGE = ("segment_bytes=1 GiB", "limits.packet_bytes=1 MiB")
PUBLISHERS = 4


def rows(field, loadgen, sizes):
    queued = f"with {sizes.stall_backlog:,} messages queued"
    p99 = Row("stall-p99", f"window 1, {PUBLISHERS} publishers, durable, {queued}",
              "p99 of the acknowledgement on small segments ÷ on one large", target=2, target_text="≤ 2")
    longest = Row("stall-max", f"the same, {queued}", "ms, the longest acknowledgement on small segments",
                  target=20, target_text="≤ 20")
    seen = {}

    def ratio():
        for name, settings in (("large", LARGE), ("small", SMALL), ("large again", LARGE)):
            seen[name] = run(field.vowmq(*settings), loadgen, sizes)
        large = (seen["large"]["p99"] + seen["large again"]["p99"]) / 2
        p99.notes.append("; ".join(f"{name}: {described(ack)}" for name, ack in seen.items()))
        return seen["small"]["p99"] / large

    p99.measure("vowmq", ratio)
    if "small" in seen:
        longest.measure("vowmq", lambda: seen["small"]["max"] / 1000)
    sync = loadgen.sync_us(count=5000)
    longest.notes.append(f"of 5,000 bare syncs the longest took {sync['max'] / 1000:.1f} ms, p99 {sync['p99']} µs")
    return [p99, longest]


def described(ack):
    return f"p50 {ack['p50']}, p99 {ack['p99']}, max {ack['max']} µs, {ack['segments']} segments begun"


def run(vowmq, loadgen, sizes):
    """The latencies of acknowledgements, and how many segments were begun meanwhile."""
    with vowmq as broker:
        loadgen.mqtt(broker, qos=1, window=1000, offline=1, subs=0, count=sizes.stall_backlog)
        process.wait_until_quiet(broker.pid)  # segments are prepared ahead
        before = broker.last_segment()
        with Trickle(broker):
            result = loadgen.mqtt(broker, qos=1, window=1, pubs=PUBLISHERS, durable=True, count=sizes.stall_messages // PUBLISHERS)
        return result["ack_us"] | {"segments": broker.last_segment() - before}


class Trickle:
    """A client that publishes about 100 messages a second for a durable session that is away."""

    def __init__(self, broker):
        with wire.Client(broker.mqtt, "trickle-away", clean=False) as away:
            away.subscribe(["trickle/#"], qos=1)
            away.disconnect()
        self.client = wire.Client(broker.mqtt, "trickle", clean=True)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.publish)

    def publish(self):
        packet = wire.publish("trickle/live", b"x" * 100, qos=1, packet_id=1)
        while not self.over.wait(0.01):
            self.client.send(packet)
            self.client.wait_for(wire.PUBACK)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.client.close()
