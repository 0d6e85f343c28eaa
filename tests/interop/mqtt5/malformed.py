"""Packets that must not be: each ends its connection with the right code, and only that connection."""

import wire as w
from broker import Case, Target

MALFORMED, PROTOCOL = 0x81, 0x82
# What Mosquitto takes, and the specification does not.
TAKEN_BY_MOSQUITTO = ("authentication data alone", "wildcard in the response topic", "payload format 2", "DUP of QoS 0")
TAKEN_BY_MOSQUITTO += ("subscription identifier of a publisher", "no-local of a shared one", "flags of PUBACK", "SUBACK")
TAKEN_BY_MOSQUITTO += ("reason of PUBREL", "flags of PINGREQ", "PINGREQ with a body", "PINGRESP", "flags of PUBREC")
TAKEN_BY_MOSQUITTO += ("flags of PUBCOMP", "reason of PUBACK", "reason of PUBREC", "reason of PUBCOMP")
TAKEN_BY_MOSQUITTO += ("remaining length with a byte too many", "length with a byte too many")


def connect_bytes(properties=b"", flags=2, client=w.text("c"), rest=b"", will=b""):
    head = w.text("MQTT") + bytes([5, flags, 0, 60]) + w.variable(len(properties)) + properties
    return w.frame("CONNECT", head + client + will + rest)


class Malformed(Case):
    def refuse(self, cases):
        """CONNECTs that get a CONNACK of refusal, or the end."""
        for claim, packet, reasons in cases:
            if Target.mosquitto and claim in TAKEN_BY_MOSQUITTO:
                continue
            with self.subTest(claim):
                wire = self.wire()
                wire.send(packet)
                answer = wire.packet()
                if answer:
                    self.assertEqual(answer.kind, "CONNACK", answer)
                    self.assertIn(answer.reason, reasons)
                    self.assertIsNone(wire.packet())
        self.assertLives()

    def end(self, cases, **connect):
        """What ends a connection that was served, with DISCONNECT."""
        for claim, packet, reasons in cases:
            if Target.mosquitto and claim in TAKEN_BY_MOSQUITTO:
                continue
            with self.subTest(claim):
                wire = self.connected("c", **connect)
                wire.send(packet)
                self.assertEnds(wire, *reasons)
        self.assertLives()

    def test_connect(self):
        """B04, B11: flags, names and identifiers of CONNECT. [MQTT5-3.1.4-1], [MQTT5-4.13.1-1]"""
        will = w.property_block({}) + w.text("w") + w.text("m")
        self.refuse(
            [
                ("reserved flag", connect_bytes(flags=3), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.2-3]
                ("will retain without will", connect_bytes(flags=0x22), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.2-13]
                ("will QoS without will", connect_bytes(flags=0x0A), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.2-11]
                ("will QoS 3", connect_bytes(flags=0x1E, will=will), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.2-12]
                ("will without its fields", connect_bytes(flags=6), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.2-9]
                ("user name missing", connect_bytes(flags=0x82), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.2-17]
                ("password missing", connect_bytes(flags=0x42), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.2-19]
                ("rest behind the end", connect_bytes(rest=b"x"), (MALFORMED, PROTOCOL)),
                ("user name without its flag", connect_bytes(rest=w.text("u")), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.2-16]
                # [MQTT5-3.1.2-18]
                ("password without its flag", connect_bytes(flags=0x82, rest=w.text("u") * 2), (MALFORMED, PROTOCOL)),
                ("will without its flag", connect_bytes(will=will), (MALFORMED, PROTOCOL)),
                ("flags of the fixed header", b"\x11" + connect_bytes()[1:], (MALFORMED, PROTOCOL)),  # [MQTT5-2.1.3-1]
                ("no client", connect_bytes(client=b""), (MALFORMED, PROTOCOL)),  # [MQTT5-3.1.3-3]
                ("NUL in the client", connect_bytes(client=w.text(b"a\0b")), (MALFORMED, 0x85)),  # [MQTT5-1.5.4-2]
                # [MQTT5-1.5.4-1], [MQTT5-3.1.3-4]
                ("surrogate in the client", connect_bytes(client=w.text(b"\xed\xa0\x80")), (MALFORMED, 0x85)),
                ("overlong in the client", connect_bytes(client=w.text(b"\xc0\xaf")), (MALFORMED, 0x85)),  # [MQTT5-1.5.4-1]
                ("0xff in the client", connect_bytes(client=w.text(b"\xff")), (MALFORMED, 0x85)),
                ("NUL in the user name", connect_bytes(flags=0x82, rest=w.text(b"\0")), (MALFORMED,)),
                ("user name that is no UTF-8", connect_bytes(flags=0x82, rest=w.text(b"\xff")), (MALFORMED,)),  # [MQTT5-3.1.3-12]
            ]
        )

    def test_will(self):
        """The will's topic and properties."""

        def will(properties, topic=b"w"):
            return connect_bytes(flags=6, will=w.variable(len(properties)) + properties + w.text(topic) + w.text("m"))

        self.refuse(
            [
                ("wildcard", will(b"", b"w/#"), (MALFORMED, PROTOCOL, 0x90)),  # [MQTT5-3.3.2-2], [MQTT5-4.7.0-1]
                ("no topic", will(b"", b""), (MALFORMED, PROTOCOL, 0x90)),
                ("NUL", will(b"", b"a\0"), (MALFORMED, PROTOCOL, 0x90)),
                ("no UTF-8", will(b"", b"\xff"), (MALFORMED,)),  # [MQTT5-3.1.3-11]
                ("response topic that is no UTF-8", will(b"\x08\0\1\xff"), (MALFORMED,)),  # [MQTT5-3.3.2-13]
                ("wildcard in the response topic", will(b"\x08\0\1#"), (PROTOCOL, MALFORMED)),  # [MQTT5-3.3.2-14]
                ("payload format 2", will(b"\1\2"), (PROTOCOL, MALFORMED)),
                ("a property of PUBLISH only", will(b"\x23\0\1"), (PROTOCOL, MALFORMED)),
                ("will delay twice", will(b"\x18\0\0\0\1" * 2), (PROTOCOL, MALFORMED)),
                ("cut property", will(b"\x18\0\0"), (MALFORMED,)),
            ]
        )

    def test_connect_properties(self):
        """B13, B58: twice what may be there once, what belongs elsewhere, and values that are not allowed."""
        once = {
            "session expiry": b"\x11\0\0\0\1",
            "receive maximum": b"\x21\0\1",
            "maximum packet": b"\x27\0\0\x08\x34",
            "alias maximum": b"\x22\0\1",
            "request response": b"\x19\1",
            "request problem": b"\x17\1",
            "authentication method": b"\x15\0\1m",
        }
        cases = [(f"{name} twice", connect_bytes(value * 2), (PROTOCOL,)) for name, value in once.items()]
        cases += [
            ("maximum packet twice, others", connect_bytes(b"\x27\0\0\x08\x34\x27\0\0\x04\0"), (PROTOCOL,)),
            ("receive maximum 0", connect_bytes(b"\x21\0\0"), (PROTOCOL,)),
            ("maximum packet 0", connect_bytes(b"\x27\0\0\0\0"), (PROTOCOL,)),
            ("request response 2", connect_bytes(b"\x19\2"), (PROTOCOL,)),
            ("request problem 2", connect_bytes(b"\x17\2"), (PROTOCOL,)),
            ("authentication data alone", connect_bytes(b"\x16\0\1x"), (PROTOCOL,)),
            ("topic alias", connect_bytes(b"\x23\0\1"), (PROTOCOL, MALFORMED)),
            ("unknown property", connect_bytes(b"\x7f\0"), (PROTOCOL, MALFORMED)),
            ("cut property", connect_bytes(b"\x11\0\0"), (MALFORMED,)),
            ("name of a user property that is no UTF-8", connect_bytes(b"\x26\0\1\xff\0\1b"), (MALFORMED,)),  # [MQTT5-1.5.7-1]
            ("value of a user property that is no UTF-8", connect_bytes(b"\x26\0\1b\0\1\xff"), (MALFORMED,)),  # [MQTT5-1.5.7-1]
            ("length beyond the packet", w.frame("CONNECT", w.text("MQTT") + b"\5\2\0\x3c\x7f"), (MALFORMED,)),
        ]
        self.refuse(cases)

    def test_publish(self):
        """B03, B11, S02, S04: topics, QoS and properties of PUBLISH."""

        def publish(properties=b"", topic=b"a", flags=0, id=b""):
            return w.frame("PUBLISH", w.text(topic) + id + w.variable(len(properties)) + properties + b"x", flags)

        self.end(
            [
                ("QoS 3", publish(flags=6, id=b"\0\1"), (MALFORMED,)),  # [MQTT5-3.3.1-4]
                ("DUP of QoS 0", publish(flags=8), (MALFORMED, PROTOCOL)),  # [MQTT5-3.3.1-2]
                ("identifier 0", publish(flags=2, id=b"\0\0"), (PROTOCOL, MALFORMED)),  # [MQTT5-2.2.1-3]
                ("+ in the topic", publish(topic=b"a/+"), (0x90, MALFORMED, PROTOCOL)),  # [MQTT5-3.3.2-2], [MQTT5-4.7.0-1]
                ("# in the topic", publish(topic=b"a#b"), (0x90, MALFORMED, PROTOCOL)),  # [MQTT5-3.3.2-2], [MQTT5-4.7.0-1]
                ("no topic, no alias", publish(topic=b""), (PROTOCOL,)),  # [MQTT5-4.7.3-1]
                ("NUL in the topic", publish(topic=b"a\0b"), (MALFORMED,)),  # [MQTT5-1.5.4-2], [MQTT5-4.7.3-2]
                ("surrogate in the topic", publish(topic=b"\xed\xa0\x80"), (MALFORMED,)),  # [MQTT5-1.5.4-1], [MQTT5-3.3.2-1]
                ("overlong in the topic", publish(topic=b"\xc0\xaf"), (MALFORMED,)),
                ("payload format 2", publish(b"\1\2"), (PROTOCOL, MALFORMED)),
                ("payload format twice", publish(b"\1\1" * 2), (PROTOCOL,)),
                ("message expiry twice", publish(b"\2\0\0\0\1" * 2), (PROTOCOL,)),
                ("content type twice", publish(b"\3\0\1t" * 2), (PROTOCOL,)),
                ("response topic twice", publish(b"\x08\0\1t" * 2), (PROTOCOL,)),
                ("correlation data twice", publish(b"\x09\0\1t" * 2), (PROTOCOL,)),
                ("wildcard in the response topic", publish(b"\x08\0\1+"), (PROTOCOL, MALFORMED)),  # [MQTT5-3.3.2-14]
                ("response topic that is no UTF-8", publish(b"\x08\0\1\xff"), (MALFORMED,)),  # [MQTT5-3.3.2-13]
                ("content type that is no UTF-8", publish(b"\3\0\1\xff"), (MALFORMED,)),  # [MQTT5-3.3.2-19]
                ("a property of CONNECT", publish(b"\x21\0\1"), (PROTOCOL, MALFORMED)),
                ("cut property", publish(b"\2\0\0"), (MALFORMED,)),
                ("length beyond the packet", w.frame("PUBLISH", w.text("a") + b"\x7f"), (MALFORMED,)),
                ("length with a byte too many", w.frame("PUBLISH", w.text("a") + b"\x80\0x"), (MALFORMED,)),  # [MQTT5-1.5.5-1]
            ]
        )

    def test_identifier_of_a_subscription_in_publish(self):
        """B70: only the broker sends those. [MQTT5-3.3.4-6]"""
        self.end([("subscription identifier of a publisher", bytes.fromhex("3007000161020b0178"), (PROTOCOL,))])

    def test_subscribe(self):
        """B09, B70: identifiers, options and properties of SUBSCRIBE."""

        def subscribe(body, properties=b"", flags=2, id=b"\0\1"):
            return w.frame("SUBSCRIBE", id + w.variable(len(properties)) + properties + body, flags)

        one = w.text("a") + b"\1"
        self.end(
            [
                ("identifier 0", subscribe(one, id=b"\0\0"), (PROTOCOL, MALFORMED)),  # [MQTT5-2.2.1-3]
                ("flags", subscribe(one, flags=0), (MALFORMED,)),  # [MQTT5-2.1.3-1], [MQTT5-3.8.1-1]
                ("no filter", subscribe(b""), (PROTOCOL, MALFORMED)),  # [MQTT5-3.8.3-2]
                ("no options", subscribe(w.text("a")), (MALFORMED,)),
                ("QoS 3", subscribe(w.text("a") + b"\3"), (PROTOCOL, MALFORMED)),
                ("retain handling 3", subscribe(w.text("a") + b"\x31"), (PROTOCOL, MALFORMED)),
                ("reserved options", subscribe(w.text("a") + b"\x41"), (MALFORMED, PROTOCOL)),  # [MQTT5-3.8.3-5]
                ("no-local of a shared one", subscribe(w.text("$share/g/a") + b"\5"), (PROTOCOL,)),  # [MQTT5-3.8.3-4]
                ("subscription identifier 0", subscribe(one, b"\x0b\0"), (PROTOCOL,)),
                ("two subscription identifiers", subscribe(one, b"\x0b\1\x0b\2"), (PROTOCOL,)),
                ("five bytes of an identifier", subscribe(one, b"\x0b\xff\xff\xff\xff\1"), (MALFORMED,)),
                ("NUL in a filter", subscribe(w.text(b"a\0") + b"\1"), (MALFORMED,)),  # [MQTT5-4.7.3-2]
                ("a filter that is no UTF-8", subscribe(w.text(b"\xff") + b"\1"), (MALFORMED,)),  # [MQTT5-3.8.3-1]
                ("a property of PUBLISH", subscribe(one, b"\3\0\1t"), (PROTOCOL, MALFORMED)),
            ]
        )

    def test_unsubscribe(self):
        """B03, B09: the same care as with SUBSCRIBE."""

        def unsubscribe(body, properties=b"", flags=2, id=b"\0\1"):
            return w.frame("UNSUBSCRIBE", id + w.variable(len(properties)) + properties + body, flags)

        self.end(
            [
                ("identifier 0", unsubscribe(w.text("a"), id=b"\0\0"), (PROTOCOL, MALFORMED)),  # [MQTT5-2.2.1-3]
                ("flags", unsubscribe(w.text("a"), flags=0), (MALFORMED,)),  # [MQTT5-3.10.1-1]
                ("no filter", unsubscribe(b""), (PROTOCOL, MALFORMED)),  # [MQTT5-3.10.3-2]
                ("cut filter", unsubscribe(b"\0\5ab"), (MALFORMED,)),
                ("a filter that is no UTF-8", unsubscribe(w.text(b"\xff")), (MALFORMED,)),  # [MQTT5-3.10.3-1]
                ("subscription identifier", unsubscribe(w.text("a"), b"\x0b\1"), (PROTOCOL, MALFORMED)),
            ]
        )

    def filters(self, packet, kind):
        """A wrong filter is answered in its place with 0x8F, or ends the connection."""
        for name in ("home/#/temp", "a#", "#a", "a/#b", "x+", "a+/b", "+a", "", "a/##"):
            with self.subTest(name):
                wire = self.connected("c")
                wire.send(packet(1, name))
                found = wire.packet()
                if found and found.kind == kind:
                    self.assertEqual(found.reasons, [0x8F], name)
                    self.connected("p").publish("home/x/temp")
                    self.assertSilent(wire)
                else:
                    self.assertTrue(found and found.kind == "DISCONNECT" and found.reason in (0x81, 0x82, 0x8F), found)
        self.assertLives()

    def test_wrong_filters(self):
        """B01, S03: where wildcards may stand. [MQTT5-4.7.1-1], [MQTT5-4.7.1-2], [MQTT5-4.7.3-1]"""
        self.filters(w.subscribe, "SUBACK")

    def test_wrong_filters_of_unsubscribe(self):
        """B03: the same of UNSUBSCRIBE."""
        self.filters(w.unsubscribe, "UNSUBACK")

    def test_acknowledgements(self):
        """Flags, reasons and properties of what clients answer, and packets of the other side."""
        self.end(
            [
                ("flags of PUBACK", w.frame("PUBACK", b"\0\1", 1), (MALFORMED,)),  # [MQTT5-2.1.3-1]
                ("flags of PUBREC", w.frame("PUBREC", b"\0\1", 2), (MALFORMED,)),
                ("flags of PUBREL", w.frame("PUBREL", b"\0\1", 0), (MALFORMED,)),  # [MQTT5-3.6.1-1]
                ("flags of PUBCOMP", w.frame("PUBCOMP", b"\0\1", 2), (MALFORMED,)),
                ("reason of PUBACK", w.frame("PUBACK", b"\0\1\x92"), (MALFORMED, PROTOCOL)),  # [MQTT5-3.4.2-1]
                ("reason of PUBREC", w.frame("PUBREC", b"\0\1\x92"), (MALFORMED, PROTOCOL)),  # [MQTT5-3.5.2-1]
                ("reason of PUBCOMP", w.frame("PUBCOMP", b"\0\1\x80"), (MALFORMED, PROTOCOL)),  # [MQTT5-3.7.2-1]
                ("reason of PUBREL", w.frame("PUBREL", b"\0\1\x80"), (MALFORMED, PROTOCOL)),  # [MQTT5-3.6.2-1]
                ("property of PUBACK", w.answer("PUBACK", 1, 0, content_type="t"), (MALFORMED, PROTOCOL)),
                ("cut PUBACK", w.frame("PUBACK", b"\0"), (MALFORMED,)),
                ("identifier 0", w.frame("PUBREL", b"\0\0"), (MALFORMED, PROTOCOL)),
                ("flags of PINGREQ", w.frame("PINGREQ", b"", 1), (MALFORMED,)),  # [MQTT5-2.1.3-1]
                ("PINGREQ with a body", w.frame("PINGREQ", b"x"), (MALFORMED,)),
                ("CONNACK", w.frame("CONNACK", b"\0\0\0"), (PROTOCOL, MALFORMED)),
                ("SUBACK", w.frame("SUBACK", b"\0\1\0\0"), (PROTOCOL, MALFORMED)),
                ("PINGRESP", w.frame("PINGRESP", b""), (PROTOCOL, MALFORMED)),
                ("kind 0", b"\0\0", (PROTOCOL, MALFORMED)),
                ("remaining length with a byte too many", b"\xc0\x80\0", (MALFORMED,)),  # [MQTT5-1.5.5-1]
                ("remaining length of five bytes", b"\x30\xff\xff\xff\xff\1", (MALFORMED, 0x95)),
            ]
        )

    def test_disconnect(self):
        """B13: flags, reasons and properties of DISCONNECT; from 0 the session expiry cannot be raised."""
        self.end(
            [
                ("flags", w.frame("DISCONNECT", b"", 1), (MALFORMED,)),  # [MQTT5-3.14.1-1]
                ("reason of the server", w.disconnect(0x8B), (MALFORMED, PROTOCOL)),  # [MQTT5-3.14.2-1]
                ("reason that does not exist", w.disconnect(0x7F), (MALFORMED, PROTOCOL)),  # [MQTT5-3.14.2-1]
                ("session expiry where it was 0", w.disconnect(0, session_expiry=10), (PROTOCOL,)),
                ("session expiry twice", w.frame("DISCONNECT", b"\0\x0a" + b"\x11\0\0\0\0" * 2), (PROTOCOL,)),
                ("property of CONNECT", w.disconnect(0, receive_maximum=1), (PROTOCOL, MALFORMED)),
            ]
        )

    def test_auth(self):
        """Flags and reasons of AUTH; without a method there is none at all. [MQTT5-4.12.0-7]"""
        self.end(
            [
                ("flags", w.frame("AUTH", b"", 1), (MALFORMED,)),  # [MQTT5-3.15.1-1]
                ("reason of AUTH", w.auth(0x80, authentication_method="m"), (MALFORMED, PROTOCOL)),  # [MQTT5-3.15.2-1]
                ("to go on", w.auth(0x18, authentication_method="m"), (PROTOCOL,)),
                ("to begin again", w.auth(0x19, authentication_method="m"), (PROTOCOL,)),
            ]
        )

    def test_longer_variable_integers(self):
        """Numbers of more bytes than they need, where they are allowed to be refused, do no harm."""
        wire = self.wire()
        wire.send(w.connect("c"), b"\xc0\x80\0")
        wire.expect("CONNACK")
        found = wire.packet()
        self.assertTrue(found is None or found.kind in ("PINGRESP", "DISCONNECT"), found)
        self.assertLives()

    def test_byte_order_mark(self):
        """U+FEFF is a character like others. [MQTT5-1.5.4-3]"""
        wire = self.subscribed("\ufeffc", "\ufeffa")
        wire.publish("a")
        wire.send(w.publish("\ufeffa", "x"))
        self.assertEqual(wire.message().topic, "\ufeffa")
