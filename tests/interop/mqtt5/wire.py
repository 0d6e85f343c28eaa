"""MQTT as bytes over a socket, for what clients would never send or do not show. Version 5, and 4 for 3.1.1.

Properties are keyword arguments and come back as a dictionary: `user=[("a", "b")]`, `content_type="text"`.
"""

import socket
from types import SimpleNamespace

KINDS = "CONNECT CONNACK PUBLISH PUBACK PUBREC PUBREL PUBCOMP SUBSCRIBE SUBACK UNSUBSCRIBE UNSUBACK PINGREQ PINGRESP DISCONNECT AUTH"
NUMBER = {name: number for number, name in enumerate(KINDS.split(), 1)}
NAME = {number: name for name, number in NUMBER.items()}

# Name, identifier and kind of every property of version 5.
PROPERTIES = {
    "payload_format": (1, "byte"),
    "message_expiry": (2, "four"),
    "content_type": (3, "text"),
    "response_topic": (8, "text"),
    "correlation_data": (9, "binary"),
    "subscription_identifier": (11, "variable"),
    "session_expiry": (17, "four"),
    "assigned_client": (18, "text"),
    "server_keep_alive": (19, "two"),
    "authentication_method": (21, "text"),
    "authentication_data": (22, "binary"),
    "request_problem": (23, "byte"),
    "will_delay": (24, "four"),
    "request_response": (25, "byte"),
    "response_information": (26, "text"),
    "server_reference": (28, "text"),
    "reason_string": (31, "text"),
    "receive_maximum": (33, "two"),
    "alias_maximum": (34, "two"),
    "alias": (35, "two"),
    "maximum_qos": (36, "byte"),
    "retain_available": (37, "byte"),
    "user": (38, "pair"),
    "maximum_packet": (39, "four"),
    "wildcard_available": (40, "byte"),
    "identifiers_available": (41, "byte"),
    "shared_available": (42, "byte"),
}
BY_NUMBER = {number: (name, kind) for name, (number, kind) in PROPERTIES.items()}
FIXED = {"byte": 1, "two": 2, "four": 4}

# The properties that a server may send, by packet. A session expiry is not in its DISCONNECT. [MQTT5-3.14.2-2]
OF_SERVERS = {"PUBLISH": "payload_format message_expiry content_type response_topic correlation_data"}
OF_SERVERS["PUBLISH"] += " subscription_identifier alias user"
OF_SERVERS["CONNACK"] = "session_expiry assigned_client server_keep_alive authentication_method authentication_data"
OF_SERVERS["CONNACK"] += " response_information server_reference reason_string receive_maximum alias_maximum maximum_qos"
OF_SERVERS["CONNACK"] += " retain_available user maximum_packet wildcard_available identifiers_available shared_available"
OF_SERVERS |= dict.fromkeys("PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK".split(), "reason_string user")
OF_SERVERS["AUTH"] = "authentication_method authentication_data reason_string user"
OF_SERVERS["DISCONNECT"] = "server_reference reason_string user"

# The reason codes that a server may send, by packet: no others.
# [MQTT5-3.2.2-8], [MQTT5-3.4.2-1], [MQTT5-3.5.2-1], [MQTT5-3.6.2-1], [MQTT5-3.7.2-1], [MQTT5-3.9.3-2], [MQTT5-3.11.3-2],
# [MQTT5-3.14.2-1], [MQTT5-3.15.2-1].
REASONS = {
    "CONNACK": "00 80 81 82 83 84 85 86 87 88 89 8a 8c 90 95 97 99 9a 9b 9c 9d 9f",
    "PUBACK": "00 10 80 83 87 90 91 97 99",
    "PUBREC": "00 10 80 83 87 90 91 97 99",
    "PUBREL": "00 92",
    "PUBCOMP": "00 92",
    "SUBACK": "00 01 02 80 83 87 8f 91 97 9e a1 a2",
    "UNSUBACK": "00 11 80 83 87 8f 91",
    "PINGRESP": "00",
    "AUTH": "00 18",
    "DISCONNECT": "00 80 81 82 83 87 89 8b 8d 8e 8f 90 93 94 95 96 97 98 99 9a 9b 9c 9d 9e 9f a0 a1 a2",
}
REASONS = {kind: set(bytes.fromhex(codes)) for kind, codes in REASONS.items()}


def variable(number):
    made = bytearray()
    while True:
        number, low = divmod(number, 128)
        made.append(low | (0x80 if number else 0))
        if not number:
            return bytes(made)


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return len(value).to_bytes(2, "big") + value


def property_bytes(name, value):
    number, kind = PROPERTIES[name]
    if kind == "variable":
        return bytes([number]) + variable(value)
    if kind == "pair":
        return bytes([number]) + text(value[0]) + text(value[1])
    return bytes([number]) + (value.to_bytes(FIXED[kind], "big") if kind in FIXED else text(value))


def property_block(given):
    """With their length. A list is the same property several times."""
    made = b""
    for name, value in given.items():
        for one in value if isinstance(value, list) else [value]:
            made += property_bytes(name, one)
    return variable(len(made)) + made


def frame(kind, body, flags=None):
    if flags is None:
        flags = 2 if kind in ("PUBREL", "SUBSCRIBE", "UNSUBSCRIBE") else 0
    return bytes([NUMBER[kind] << 4 | flags]) + variable(len(body)) + body


def connect(client="", clean=True, version=5, keep_alive=60, will=None, user_name=None, password=None, flags=None, **given):
    """`will` is (topic, payload, qos, retain, properties)."""
    bits = 2 if clean else 0
    payload = text(client)
    if will:
        topic, message, qos, retain, will_properties = will
        bits |= 4 | qos << 3 | (32 if retain else 0)
        payload += (property_block(will_properties) if version == 5 else b"") + text(topic) + text(message)
    if user_name is not None:
        bits |= 128
        payload += text(user_name)
    if password is not None:
        bits |= 64
        payload += text(password)
    head = text("MQTT") + bytes([version, bits if flags is None else flags]) + keep_alive.to_bytes(2, "big")
    return frame("CONNECT", head + (property_block(given) if version == 5 else b"") + payload)


def publish(topic, payload=b"", qos=0, id=None, retain=False, dup=False, version=5, **given):
    body = text(topic) + (id.to_bytes(2, "big") if id is not None else b"")
    body += (property_block(given) if version == 5 else b"") + (payload.encode() if isinstance(payload, str) else payload)
    return frame("PUBLISH", body, (8 if dup else 0) | qos << 1 | (1 if retain else 0))


def answer(kind, id, reason=None, **given):
    """PUBACK, PUBREC, PUBREL, PUBCOMP: short, unless there is a reason or a property."""
    body = id.to_bytes(2, "big")
    if reason is not None or given:
        body += bytes([reason or 0])
    return frame(kind, body + (property_block(given) if given else b""))


def subscribe(id, *filters, version=5, **given):
    """Each filter is (filter, options), or a filter alone for QoS 1."""
    body = id.to_bytes(2, "big") + (property_block(given) if version == 5 else b"")
    for one in filters:
        name, options = one if isinstance(one, tuple) else (one, 1)
        body += text(name) + bytes([options])
    return frame("SUBSCRIBE", body)


def unsubscribe(id, *filters, version=5, **given):
    block = property_block(given) if version == 5 else b""
    return frame("UNSUBSCRIBE", id.to_bytes(2, "big") + block + b"".join(map(text, filters)))


def disconnect(reason=None, **given):
    body = bytes([reason or 0]) if reason is not None or given else b""
    return frame("DISCONNECT", body + (property_block(given) if given else b""))


def auth(reason, **given):
    return frame("AUTH", bytes([reason]) + property_block(given))


class Reader:
    """Reads the fields of a packet."""

    def __init__(self, body):
        self.body, self.at = body, 0

    def left(self):
        return len(self.body) - self.at

    def take(self, count):
        assert self.left() >= count, f"{self.body.hex()} is cut"
        self.at += count
        return self.body[self.at - count : self.at]

    def number(self, count):
        return int.from_bytes(self.take(count), "big")

    def variable(self):
        """In as few bytes as it takes. [MQTT5-1.5.5-1]"""
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                assert byte or shift == 7, f"{value} in {shift // 7} bytes"
                return value

    def binary(self):
        return self.take(self.number(2))

    def value(self, kind):
        if kind in FIXED:
            return self.number(FIXED[kind])
        if kind == "variable":
            return self.variable()
        if kind == "binary":
            return self.binary()
        if kind == "pair":
            return (self.binary().decode(), self.binary().decode())
        return self.binary().decode()

    def properties(self):
        found = {}
        inner = Reader(self.take(self.variable()))
        while inner.left():
            name, kind = BY_NUMBER[inner.variable()]
            value = inner.value(kind)
            if name in ("user", "subscription_identifier"):
                found.setdefault(name, []).append(value)
            else:
                assert name not in found, f"{name} comes twice"
                found[name] = value
        return found


def parse(first, body, version):
    """What a server sent. It is held against what every packet has to keep to, in every test."""
    kind, reader = NAME[first >> 4], Reader(body)
    packet = SimpleNamespace(kind=kind, flags=first & 15, size=len(body) + 1 + len(variable(len(body))), properties={})
    if kind == "CONNACK":
        flags, packet.reason = reader.number(1), reader.number(1)
        assert flags in (0, 1), "reserved flags of CONNACK [MQTT5-3.2.2-1]"
        packet.session_present = flags == 1
    elif kind == "PUBLISH":
        packet.topic, packet.qos = reader.binary().decode(), first >> 1 & 3
        packet.retain, packet.dup = bool(first & 1), bool(first & 8)
        packet.id = reader.number(2) if packet.qos else None
    elif kind in ("PINGRESP", "DISCONNECT", "AUTH"):
        packet.reason = reader.number(1) if reader.left() else 0
    else:
        packet.id = reader.number(2)
        if kind not in ("SUBACK", "UNSUBACK"):
            packet.reason = reader.number(1) if reader.left() else 0
    # An unknown version is answered as 3.1.1 does it. Where properties are, their length is, if it is 0. [MQTT5-2.2.2-1]
    in_words_of_5 = version == 5 and not (kind == "CONNACK" and packet.reason == 1)
    if in_words_of_5 and (reader.left() or kind in ("CONNACK", "PUBLISH", "SUBACK", "UNSUBACK")):
        packet.properties = reader.properties()
    rest = reader.take(reader.left())
    if kind == "PUBLISH":
        packet.payload = rest
    elif kind in ("SUBACK", "UNSUBACK"):
        packet.reasons = list(rest)
    else:
        assert not rest, f"{kind} has {rest.hex()} behind its end"
    check_fields(packet)
    if in_words_of_5:
        check_words_of_5(packet)
    return packet


def check_fields(packet):
    if packet.kind == "PUBLISH":
        assert packet.qos < 3, "QoS 3 [MQTT5-3.3.1-4]"
        assert packet.qos or not packet.dup, "DUP with QoS 0 [MQTT5-3.3.1-2]"
        assert not set("+#\0") & set(packet.topic), "what no topic name has [MQTT5-3.3.2-2], [MQTT5-4.7.3-2]"
    else:
        right = 2 if packet.kind == "PUBREL" else 0
        assert packet.flags == right, f"flags {packet.flags} [MQTT5-2.1.3-1], [MQTT5-3.6.1-1]"
    assert getattr(packet, "id", None) != 0, "packet identifier 0 [MQTT5-2.2.1-4]"


def check_words_of_5(packet):
    odd = set(packet.properties) - set(OF_SERVERS.get(packet.kind, "").split())
    assert not odd, f"{packet.kind} has no {odd}"
    if packet.kind == "PUBLISH":
        assert packet.properties.get("alias") != 0, "topic alias 0 [MQTT5-3.3.2-8]"
        assert packet.topic or "alias" in packet.properties, "no topic [MQTT5-4.7.3-1]"
    else:
        reasons = getattr(packet, "reasons", None)
        reasons = [packet.reason] if reasons is None else reasons
        assert reasons and set(reasons) <= REASONS.get(packet.kind, set()), f"reasons of {packet}"


class Wire:
    """A connection. Acknowledges nothing by itself."""

    def __init__(self, port, patience):
        self.socket = socket.create_connection(("127.0.0.1", port), patience)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.version, self.last = 5, 0
        self.greeted, self.most = False, None
        self.releasing = set()
        self.arrived = b""
        self.early = []

    def send(self, *packets):
        self.socket.sendall(b"".join(packets))

    def exactly(self, count):
        while len(self.arrived) < count:
            try:
                more = self.socket.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                return None
            self.arrived += more
        taken, self.arrived = self.arrived[:count], self.arrived[count:]
        return taken

    def packet(self):
        """The next one, or None at the end."""
        return self.early.pop(0) if self.early else self.next_packet()

    def next_packet(self):
        """The next one on the wire. What `message` has begun is ended on the way."""
        while True:
            found = self.any_packet()
            if not found or found.kind != "PUBREL" or found.id not in self.releasing:
                return found
            self.releasing.discard(found.id)
            self.send(answer("PUBCOMP", found.id))

    def any_packet(self):
        """CONNACK is the first one, and comes once. [MQTT5-3.2.0-1], [MQTT5-3.2.0-2], [MQTT5-3.14.0-1]"""
        first = self.exactly(1)
        if first is None:
            return None
        length = bytearray()
        while not length or length[-1] >= 128:
            length += self.exactly(1)
        packet = parse(first[0], self.exactly(Reader(length).variable()), self.version)
        if packet.kind == "AUTH":  # may come before CONNACK too
            return packet
        assert (packet.kind == "CONNACK") != self.greeted, f"{packet} before CONNACK, or a second one"
        self.greeted = True
        assert self.most is None or packet.size <= self.most, f"more than {self.most} bytes [MQTT5-3.1.2-24]: {packet}"
        return packet

    def expect(self, kind, id=None):
        """A packet of that kind, and of that identifier if one is given."""
        packet = self.packet()
        assert packet and packet.kind == kind, f"{kind} was to come, not {packet}"
        assert id is None or packet.id == id, f"identifier {id} was to come, not {packet}"
        return packet

    def connect(self, client="", version=5, **options):
        self.version, self.most = version, options.get("maximum_packet")
        self.send(connect(client, version=version, **options))
        return self.expect("CONNACK")

    def next_id(self):
        self.last += 1
        return self.last

    def subscribe(self, *filters, **given):
        """Retained messages may come before the SUBACK: they are what is received next. (§3.8.4)"""
        self.send(subscribe(self.next_id(), *filters, version=self.version, **given))
        while (found := self.next_packet()) and found.kind == "PUBLISH":
            self.early.append(found)
        assert found and found.kind == "SUBACK", f"SUBACK was to come, not {found}"
        assert found.id == self.last, found
        return found.reasons

    def unsubscribe(self, *filters, **given):
        self.send(unsubscribe(self.next_id(), *filters, version=self.version, **given))
        return self.expect("UNSUBACK", self.last).reasons

    def publish(self, topic, payload=b"", qos=1, retain=False, **given):
        """To the end of its exchange; the reason code."""
        id = self.next_id() if qos else None
        self.send(publish(topic, payload, qos, id, retain, version=self.version, **given))
        if qos == 1:
            return self.expect("PUBACK", id).reason
        if qos == 2:
            reason = self.expect("PUBREC", id).reason
            if reason < 0x80:
                self.send(answer("PUBREL", id))
                self.expect("PUBCOMP", id)
            return reason
        return 0

    def message(self):
        """The next PUBLISH, acknowledged."""
        found = self.expect("PUBLISH")
        if found.qos == 1:
            self.send(answer("PUBACK", found.id))
        if found.qos == 2:
            self.releasing.add(found.id)
            self.send(answer("PUBREC", found.id))
        return found

    def messages(self, count):
        return [self.message() for _ in range(count)]

    def ping(self):
        """The next packet after a PINGREQ."""
        self.send(frame("PINGREQ", b""))
        return self.packet()

    def leave(self, reason=None, **given):
        """DISCONNECT, and waits for the end."""
        self.send(disconnect(reason, **given) if self.version == 5 else frame("DISCONNECT", b""))
        while self.exactly(1):
            pass
        self.close()

    def close(self):
        self.socket.close()
