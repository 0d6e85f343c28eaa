"""AMQP: queues beside RabbitMQ's. Its classic queues confirm without a sync, its quorum queues after one; vowmq always after one."""

import statistics
import time

import amqp_wire
import process
from durable import middle
from row import Row

RATE = "messages a second, end to end"
CPU = "µs of processor time a message"
EXCHANGE = "bench.topics"


def rows(field, loadgen, sizes):
    works = [
        # key, work, options, times RabbitMQ's rate, CPU target in µs
        ("transient", "AMQP, transient, no acknowledgements, 1 to 1", dict(), 8, 1.2),
        ("acknowledged", "AMQP, transient, prefetch 200, acknowledged, 1 to 1", dict(prefetch=200), 6, 2),
        ("confirmed", "AMQP, durable, confirm 256, prefetch 200 (RabbitMQ: quorum queue)",
         dict(durable=True, confirm=256, prefetch=200), 8, 3),
        ("confirmed8", "AMQP, durable, 8 publishers, confirm 64, prefetch 200 (RabbitMQ: quorum queue)",
         dict(durable=True, pubs=8, confirm=64, prefetch=200), 8, None),
    ]
    rates = {key: Row(f"amqp-{key}", work, RATE, more_is_better=True, group=RATE) for key, work, *_ in works}
    costs = {key: Row(f"amqp-{key}-cpu", work, CPU, target=target, target_text=f"≤ {target}", group="AMQP: " + CPU)
             for key, work, _, _, target in works if target}
    alone = Row("amqp-confirm1", "AMQP, durable, confirm 1 (RabbitMQ: quorum queue)", "µs until the confirm, median")
    hand_over = Row("amqp-latency", "AMQP, transient, idle: from publisher to consumer", "µs, median", target=100, target_text="≤ 100")
    many = Row("amqp-bindings", "AMQP, a publish to 1 of 10,000 queues bound to one topic exchange",
               "times the processor time of one to 1 of 10", target=2, target_text="≤ 2")
    for broker in field.all():
        if broker.name == "Mosquitto":
            continue
        with broker:
            if broker.name == "vowmq":
                process.wait_until_quiet(broker.pid)
            for key, _, options, times, _ in works:
                run(broker, loadgen, sizes, options, rates[key], costs.get(key))
                if broker.name == "RabbitMQ" and (rate := rates[key].figures.get("RabbitMQ")):
                    rates[key].target = times * rate
                    rates[key].target_text = f"≥ {times} × RabbitMQ"
            alone.measure(broker.name, lambda: confirm_us(broker, loadgen, sizes, alone))
            hand_over.measure(broker.name, lambda: hand_over_us(broker, sizes))
        many.measure(broker.name, lambda: bindings(field, broker.name, sizes, many))
    return [*(row for key in rates for row in (rates[key], costs.get(key)) if row), alone, hand_over, many]


def kind_of_queue(broker, options):
    return dict(quorum=True) if broker.name == "RabbitMQ" and options.get("durable") else {}


def run(broker, loadgen, sizes, options, rate, cost):
    count = max(int(sizes.messages * broker.share / options.get("pubs", 1)), 200)
    found = {}

    def rate_of():
        found.update(loadgen.amqp(broker, count=count, **options, **kind_of_queue(broker, options)))
        if not found["complete"]:
            rate.notes.append(f"{found['received']:,} of {found['sent']:,} messages arrived")
        return found["end_to_end_per_s"]

    rate.measure(broker.name, rate_of)
    if cost and found:
        cost.measure(broker.name, lambda: found["broker_cpu_us_per_msg"])


def confirm_us(broker, loadgen, sizes, row):
    options = dict(durable=True, confirm=1, consumers=0)
    before = loadgen.floors()
    result = loadgen.amqp(broker, count=sizes.alone, **options, **kind_of_queue(broker, options))
    if broker.name == "vowmq":
        sync, trip = middle(before, loadgen.floors())
        row.target = 1.25 * (sync + trip)
        row.target_text = f"≤ {row.target:.0f}, 1.25 × (sync {sync:.0f} + round trip {trip:.0f})"
    return result["ack_us"]["p50"]


def hand_over_us(broker, sizes):
    """One message at a time, with a pause before each."""
    took = []
    with amqp_wire.Client(broker.amqp) as publisher, amqp_wire.Client(broker.amqp) as consumer:
        consumer.declare_queue("bench.latency")
        consumer.consume("bench.latency")
        message = amqp_wire.publish("", "bench.latency", b"x" * 100)
        for _ in range(min(sizes.alone, 1000)):
            time.sleep(0.002)
            began = time.perf_counter()
            publisher.send(message)
            consumer.wait_for(amqp_wire.DELIVER)
            took.append((time.perf_counter() - began) * 1e6)
            consumer.frame()
            consumer.frame()
    return statistics.median(took)


def bindings(field, name, sizes, row):
    costs = []
    for count in (10, 10_000):
        with field.named(name) as broker:
            costs.append(routed_us(broker, count, max(int(sizes.routed * min(broker.share, 1)), 1000)))
    row.notes.append(f"{name}: {costs[0]:.2f} and {costs[1]:.2f} µs a message")
    return costs[1] / costs[0]


def routed_us(broker, count, messages):
    """Every message goes to one queue, the next one each time; a queue bound to all with a consumer says when all have passed."""
    with amqp_wire.Client(broker.amqp) as client, amqp_wire.Client(broker.amqp) as consumer:
        client.declare_exchange(EXCHANGE, "topic")
        for first in range(0, count, 500):
            numbers = range(first, min(first + 500, count))
            client.send(b"".join(amqp_wire.declare_queue(f"q{n}", no_wait=True) for n in numbers))
            client.send(b"".join(amqp_wire.bind(f"q{n}", EXCHANGE, f"key.{n}.*") for n in numbers))
        client.declare_queue("end")
        consumer.consume("end")
        frames = [amqp_wire.publish(EXCHANGE, f"key.{n % count}.x", b"x" * 100) for n in range(messages)]
        before = process.cpu_us(broker.pid)
        for first in range(0, messages, 100):
            client.send(b"".join(frames[first : first + 100]))
        client.send(amqp_wire.publish("", "end", b"x"))
        consumer.wait_for(amqp_wire.DELIVER)
        return (process.cpu_us(broker.pid) - before) / messages
