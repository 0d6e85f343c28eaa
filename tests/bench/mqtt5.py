"""MQTT 5 against MQTT 3.1.1, and a shared subscription of a hundred members against one subscriber.

The load generator speaks 3.1.1 and shares nothing, so this has its own client. All messages of a run have the same size, so
that it counts them by their bytes and costs little beside the broker.
"""

import selectors
import time

import process
import wire
from row import Row

MEMBERS = 100
#: Messages that the publisher has on their way at once.
WINDOW = 100
GROUP_WINDOW = 5_000
PAYLOAD = b"x" * 100
TOPIC = "bench/topic"


def rows(field, loadgen, sizes):
    versions = Row("versions", "QoS 1, window 100, 1 to 1, MQTT 5", "times the processor time of MQTT 3.1.1",
                   target=1.15, target_text="≤ 1.15")
    group = Row("group", f"QoS 1, a shared subscription of {MEMBERS} members", "times the rate of one subscriber", more_is_better=True,
                target=0.8, target_text="≥ 0.8")
    for broker in field.all():
        if broker.name == "RabbitMQ":
            continue
        with broker:
            versions.measure(broker.name, lambda: ratio_of_versions(broker, sizes, versions))
            group.measure(broker.name, lambda: ratio_of_group(broker, sizes, group))
    return [versions, group]


def ratio_of_versions(broker, sizes, row):
    """The middle of three turns, since what else the machine does falls on either."""
    ratios = []
    for _ in range(3):
        costs = [run(broker, sizes, version, 1, TOPIC, WINDOW)[0] for version in (4, 5)]
        row.notes.append(f"{broker.name}: {costs[0]:.2f} and {costs[1]:.2f} µs a message")
        ratios.append(costs[1] / costs[0])
    return sorted(ratios)[1]


def ratio_of_group(broker, sizes, row):
    ratios = []
    for _ in range(3):
        (alone_us, alone), (shared_us, shared) = (
            run(broker, sizes, 5, count, name, GROUP_WINDOW) for count, name in ((1, TOPIC), (MEMBERS, f"$share/bench/{TOPIC}"))
        )
        row.notes.append(f"{broker.name}: {alone:,.0f} and {shared:,.0f} messages a second, {alone_us:.2f} and {shared_us:.2f} µs a message")
        ratios.append(shared / alone)
    return sorted(ratios)[1]


def run(broker, sizes, version, subscribers, name, window):
    """Processor time of the broker in µs a message, and messages a second."""
    count = int(sizes.messages * broker.share) // window * window
    members = [wire.Client(broker.mqtt, f"member-{number}", clean=True, version=version) for number in range(subscribers)]
    for member in members:
        member.subscribe([name], qos=1)
    publisher = wire.Client(broker.mqtt, "publisher", clean=True, version=version)
    exchange = Exchange(publisher, members, version)
    exchange.pass_on(window, window)  # what is done once, is done
    before, began = process.cpu_us(broker.pid), time.perf_counter()
    exchange.pass_on(count, window)
    spent, took = process.cpu_us(broker.pid) - before, time.perf_counter() - began
    for client in [*members, publisher]:
        client.disconnect()
        client.close()
    return spent / count, count / took


class Exchange:
    """A publisher and those who get its messages, one thread. Packet identifiers go from 1 to 65,535 and begin again, for the
    publisher as for each member; a broker that has others is noticed, since its messages are not acknowledged then."""

    def __init__(self, publisher, members, version):
        self.publisher, self.version = publisher, version
        self.size = len(wire.publish(TOPIC, PAYLOAD, 1, 1, version))
        self.sent = self.acknowledged = self.received = 0
        self.counts = dict.fromkeys([member.socket for member in members], 0)
        self.partial = dict.fromkeys(self.counts, 0)
        self.acknowledgements = b"".join(b"\x40\x02" + number.to_bytes(2, "big") for number in range(1, 65_536))

    def pass_on(self, count, window):
        """So many messages more, until each has arrived and is acknowledged."""
        end = self.sent + count
        with selectors.DefaultSelector() as selector:
            for one in [self.publisher.socket, *self.counts]:
                selector.register(one, selectors.EVENT_READ)
            while self.acknowledged < end or self.received < end:
                room = min(window - (self.sent - min(self.acknowledged, self.received)), end - self.sent)
                if room >= window // 2 or room == end - self.sent > 0:
                    self.publish(room)
                ready = selector.select(timeout=30)
                if not ready:
                    raise ValueError(f"{self.sent} sent, {self.acknowledged} acknowledged, {self.received} received")
                for key, _ in ready:
                    self.read(key.fileobj)

    def publish(self, count):
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        self.publisher.send(b"".join(wire.publish(TOPIC, PAYLOAD, 1, number % 65_535 + 1, self.version) for number in numbers))

    def read(self, one):
        data = one.recv(1 << 20)
        if not data:
            raise ValueError("the broker closed a connection")
        if one is self.publisher.socket:
            self.acknowledged += self.whole(one, data, 4)
            return
        arrived = self.whole(one, data, self.size)
        begin = self.counts[one] % 65_535
        self.counts[one] += arrived
        self.received += arrived
        first = self.acknowledgements[begin * 4 : (begin + arrived) * 4]
        one.sendall(first + self.acknowledgements[: arrived * 4 - len(first)])

    def whole(self, one, data, size):
        """Packets that are whole with these bytes."""
        number, self.partial[one] = divmod(self.partial.get(one, 0) + len(data), size)
        return number
