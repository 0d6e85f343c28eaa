"""A small client of MQTT 3.1.1 and 5, for work that the load generator does not know: plain sockets, packets as bytes."""

from tcp import Connection

CONNACK, PUBACK, SUBACK = 2, 4, 9


def text(value):
    data = value.encode()
    return len(data).to_bytes(2, "big") + data


def packet(first, body):
    length, head = len(body), bytearray([first])
    while True:
        length, byte = divmod(length, 128)
        head.append(byte | 0x80 if length else byte)
        if not length:
            return bytes(head) + body


def properties(version):
    """None; version 5 says so."""
    return b"\0" if version == 5 else b""


def connect(client, clean, version=4):
    head = b"\0\x04MQTT" + bytes([version, 2 if clean else 0, 0, 0])
    return packet(0x10, head + properties(version) + text(client))


def subscribe(filters, qos, version=4):
    return packet(0x82, b"\0\x01" + properties(version) + b"".join(text(each) + bytes([qos]) for each in filters))


def publish(topic, payload, qos=0, packet_id=None, version=4):
    number = packet_id.to_bytes(2, "big") if qos else b""
    return packet(0x30 | qos << 1, text(topic) + number + properties(version) + payload)


class Client(Connection):
    """A connected client that waits for what it is told to; other packets are passed over."""

    def __init__(self, address, client, clean, version=4):
        super().__init__(address, timeout_s=120)
        self.version = version
        self.send(connect(client, clean, version))
        if self.wait_for(CONNACK)[1] != 0:
            raise ValueError("the connection was refused")

    def wait_for(self, kind):
        """The body of the next packet of this type."""
        while True:
            first, length, shift = self.stream.read(1), 0, 0
            if not first:
                raise ValueError("the broker closed the connection")
            while True:
                byte = self.stream.read(1)[0]
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            body = self.stream.read(length)
            if first[0] >> 4 == kind:
                return body

    def subscribe(self, filters, qos):
        self.send(subscribe(filters, qos, self.version))
        if any(code > 2 for code in self.wait_for(SUBACK)[2 + len(properties(self.version)) :]):
            raise ValueError("a subscription was refused")

    def disconnect(self):
        self.send(b"\xe0\0")
