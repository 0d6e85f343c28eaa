"""What a whole publish costs with a million subscriptions, against a thousand.

The load generator subscribes to one topic only, so this has its own client: as many connections in both cases hold all the
subscriptions between them, and every message goes to three of them, found by its name, by `+` and by `#`.
"""

import selectors

import population
import process
import wire
from row import Row

CONNECTIONS = 200
FILTERS_A_PACKET = 100
AT_ONCE = 100
#: Bytes that may be on their way; a broker may drop QoS 0 for who does not read.
UNREAD_BYTES_MAX = 1 << 20


def rows(field, loadgen, sizes):
    few, many = 1000, sizes.subscriptions
    row = Row("routing", f"QoS 0, a publish to 3 of {many:,} subscriptions", f"times the processor time of one to 3 of {few:,}",
              target=3, target_text="≤ 3")
    for broker in field.all():
        if broker.name == "RabbitMQ":
            row.notes.append("RabbitMQ is left out: so many bindings take it hours")
            continue
        row.measure(broker.name, lambda: ratio(field, broker.name, few, many, sizes, row))
    return [row]


def ratio(field, name, few, many, sizes, row):
    costs = []
    for size in (few, many):
        with field.named(name) as broker:
            costs.append(cost_us(broker, size, sizes.routed))
    row.notes.append(f"{name}: {costs[0]:.2f} and {costs[1]:.2f} µs a message")
    return costs[1] / costs[0]


def cost_us(broker, size, messages):
    clients = [wire.Client(broker.mqtt, f"fleet-{number}", clean=True) for number in range(CONNECTIONS)]
    for number, client in enumerate(clients):
        filters = [population.filter_at(index, size) for index in range(number, size, CONNECTIONS)]
        for first in range(0, len(filters), FILTERS_A_PACKET):
            client.subscribe(filters[first : first + FILTERS_A_PACKET], qos=0)
    publisher = wire.Client(broker.mqtt, "publisher", clean=True)
    packets = [wire.publish(topic, b"x" * 100) for topic in population.topics(size, messages)]
    before = process.cpu_us(broker.pid)
    deliver(publisher, clients, packets)
    spent = process.cpu_us(broker.pid) - before
    for client in [*clients, publisher]:
        client.close()
    return spent / messages


def deliver(publisher, clients, packets):
    """Publishes all, and reads until each has arrived three times."""
    unread = 0
    with selectors.DefaultSelector() as selector:
        for client in clients:
            client.socket.setblocking(False)
            selector.register(client.socket, selectors.EVENT_READ)
        for first in range(0, len(packets), AT_ONCE):
            window = b"".join(packets[first : first + AT_ONCE])
            publisher.send(window)
            unread += 3 * len(window)
            last = first + AT_ONCE >= len(packets)
            while unread > (0 if last else UNREAD_BYTES_MAX):
                ready = selector.select(timeout=30)
                if not ready:
                    raise ValueError(f"{unread} bytes did not arrive")
                unread -= sum(len(key.fileobj.recv(1 << 18)) for key, _ in ready)
