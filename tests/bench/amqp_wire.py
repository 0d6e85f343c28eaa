"""A small AMQP 0-9-1 client, for work that the load generator does not know: plain sockets, frames as bytes."""

import struct

from tcp import Connection

METHOD, HEADER, BODY = 1, 2, 3
TUNE, CONNECTION_OPEN_OK, CHANNEL_OPEN_OK = (10, 30), (10, 41), (20, 11)
EXCHANGE_DECLARE_OK, QUEUE_DECLARE_OK, CONSUME_OK, DELIVER = (40, 11), (50, 11), (60, 21), (60, 60)


def short(value):
    data = value.encode()
    return bytes([len(data)]) + data


def frame(kind, channel, payload):
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel, ids, arguments):
    return frame(METHOD, channel, struct.pack(">HH", *ids) + arguments)


def declare_queue(name, no_wait=False):
    """Transient: no bit but no-wait is set."""
    return method(1, (50, 10), b"\0\0" + short(name) + bytes([16 if no_wait else 0]) + b"\0\0\0\0")


def bind(queue, exchange, key):
    """Without an answer."""
    return method(1, (50, 20), b"\0\0" + short(queue) + short(exchange) + short(key) + b"\1" + b"\0\0\0\0")


def publish(exchange, key, body):
    """A transient message."""
    header = struct.pack(">HHQHB", 60, 0, len(body), 0x1000, 1)
    content = frame(HEADER, 1, header) + frame(BODY, 1, body)
    return method(1, (60, 40), b"\0\0" + short(exchange) + short(key) + b"\0") + content


class Client(Connection):
    """A client with channel 1 open, that waits for what it is told to; other frames are passed over."""

    def __init__(self, address):
        super().__init__(address, timeout_s=300)
        self.send(b"AMQP\0\0\x09\x01")
        answer = b"\0guest\0guest"
        start_ok = b"\0\0\0\0" + short("PLAIN") + struct.pack(">I", len(answer)) + answer + short("en_US")
        self.send(method(0, (10, 11), start_ok))
        self.wait_for(TUNE)
        self.send(method(0, (10, 31), struct.pack(">HIH", 2047, 131_072, 0)))
        self.send(method(0, (10, 40), short("/") + b"\0\0"))
        self.wait_for(CONNECTION_OPEN_OK)
        self.send(method(1, (20, 10), b"\0"))
        self.wait_for(CHANNEL_OPEN_OK)

    def frame(self):
        head = self.stream.read(7)
        if len(head) < 7:
            raise ValueError("the broker closed the connection")
        kind, _, length = struct.unpack(">BHI", head)
        return kind, self.stream.read(length + 1)[:-1]

    def wait_for(self, ids):
        """The arguments of the next method of this kind."""
        while True:
            kind, payload = self.frame()
            if kind != METHOD:
                continue
            found = struct.unpack(">HH", payload[:4])
            if found == ids:
                return payload[4:]
            if found in ((10, 50), (20, 40)):
                raise ValueError(f"refused: {payload[7:].split(bytes(1))[0]!r}")

    def call(self, ids, arguments, answer):
        self.send(method(1, ids, arguments))
        return self.wait_for(answer)

    def declare_exchange(self, name, kind):
        self.call((40, 10), b"\0\0" + short(name) + short(kind) + b"\0" + b"\0\0\0\0", EXCHANGE_DECLARE_OK)

    def declare_queue(self, name):
        self.send(declare_queue(name))
        return self.wait_for(QUEUE_DECLARE_OK)

    def consume(self, queue):
        """Without acknowledgements."""
        self.call((60, 20), b"\0\0" + short(queue) + short("") + b"\2" + b"\0\0\0\0", CONSUME_OK)
