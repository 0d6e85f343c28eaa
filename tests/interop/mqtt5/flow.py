"""Receive maximum and maximum packet size, both ways."""

import wire as w
from broker import Case, vowmq_only


class ReceiveMaximum(Case):
    def window(self, wire, count):
        """So many deliveries, and no more."""
        found = [wire.expect("PUBLISH") for _ in range(count)]
        self.assertSilent(wire)
        return found

    @vowmq_only("frees a place with PUBREC")
    def test_of_the_client(self):
        """No more than it allows is in flight; QoS 0 and everything else goes on.

        [MQTT5-3.3.4-9], [MQTT5-3.3.4-10], [MQTT5-4.9.0-1], [MQTT5-4.9.0-2], [MQTT5-4.9.0-3]
        """
        wire = self.subscribed("c", ("a", 2), "zero", receive_maximum=3)
        publisher = self.connected("p")
        for number in range(10):
            publisher.publish("a", f"{number}", 1 + number % 2)
        first = self.window(wire, 3)
        publisher.publish("zero", "", 0)
        self.assertEqual(wire.expect("PUBLISH").topic, "zero")
        wire.unsubscribe("zero")
        got = first[:]
        while len(got) < 10:
            one = got[len(got) - 3]
            if one.qos == 2:
                wire.send(w.answer("PUBREC", one.id))
                wire.expect("PUBREL")
                self.assertSilent(wire)
                wire.send(w.answer("PUBCOMP", one.id))
            else:
                wire.send(w.answer("PUBACK", one.id))
            got.append(wire.expect("PUBLISH"))
        self.assertEqual([m.payload for m in got], [b"%d" % n for n in range(10)])

    def test_failure_frees_its_place(self):
        """A PUBREC of 0x80 and above ends the exchange: no PUBREL, the next one comes. [MQTT5-4.4.0-2]"""
        wire = self.subscribed("c", ("a", 2), receive_maximum=1)
        publisher = self.connected("p")
        for number in range(3):
            publisher.publish("a", f"{number}", 2)
        for number in range(3):
            found = wire.expect("PUBLISH")
            self.assertEqual(found.payload, b"%d" % number)
            wire.send(w.answer("PUBREC", found.id, 0x83))
        self.assertSilent(wire)

    def test_stray_acknowledgements(self):
        """B60: what acknowledges nothing raises nothing."""
        wire = self.subscribed("c", ("a", 2), receive_maximum=2)
        wire.send(*(w.answer("PUBACK", id) for id in range(100, 110)))
        wire.send(*(w.answer("PUBCOMP", id) for id in range(100, 110)))
        publisher = self.connected("p")
        for number in range(5):
            publisher.publish("a", f"{number}")
        self.window(wire, 2)

    def test_new_connection_has_its_own(self):
        """B56: 1, left unacknowledged; then 4: the whole backlog, and the window is the new one."""
        wire = self.subscribed("c", "a", clean=False, session_expiry=60, receive_maximum=1)
        publisher = self.connected("p")
        for number in range(10):
            publisher.publish("a", f"{number}")
        self.window(wire, 1)
        wire.close()
        wire = self.connected("c", clean=False, session_expiry=60, receive_maximum=4)
        got = self.window(wire, 4)
        self.assertEqual([m.dup for m in got], [True, False, False, False])
        for one in got:
            wire.send(w.answer("PUBACK", one.id))
        got += wire.messages(6)
        self.assertEqual([m.payload for m in got], [b"%d" % n for n in range(10)])

    @vowmq_only("sends all of them at once")
    def test_smaller_than_what_is_in_flight(self):
        """A resume with 1 where 5 were in flight: one at a time, under their identifiers."""
        wire = self.subscribed("c", "a", clean=False, session_expiry=60, receive_maximum=5)
        publisher = self.connected("p")
        for number in range(5):
            publisher.publish("a", f"{number}")
        before = self.window(wire, 5)
        wire.close()
        wire = self.connected("c", clean=False, session_expiry=60, receive_maximum=1)
        for one in before:
            found = wire.expect("PUBLISH")
            self.assertSilent(wire)
            self.assertEqual((found.id, found.payload, found.dup), (one.id, one.payload, True))
            wire.send(w.answer("PUBACK", found.id))
        self.assertSilent(wire)

    @vowmq_only("answers 0x97")
    def test_of_the_broker(self):
        """B48: more QoS 2 messages than it allows, none released: 0x93. [MQTT5-3.3.4-7]"""
        wire = self.connected("c")
        maximum = wire.connack.properties.get("receive_maximum", 65535)
        for id in range(1, maximum + 1):
            wire.send(w.publish("a", "", 2, id))
        for id in range(1, maximum + 1):
            self.assertEqual(wire.expect("PUBREC").id, id)
        if maximum < 65535:
            wire.send(w.publish("a", "", 2, maximum + 1))
            self.assertEnds(wire, 0x93)

    def test_exactly_that_of_the_broker(self):
        """As many as it allows, again and again: no complaint."""
        wire = self.connected("c")
        maximum = min(wire.connack.properties.get("receive_maximum", 65535), 500)
        for _ in range(3):
            wire.send(*(w.publish("a", "", 2, id) for id in range(1, maximum + 1)))
            for id in range(1, maximum + 1):
                wire.expect("PUBREC")
            wire.send(*(w.answer("PUBREL", id) for id in range(1, maximum + 1)))
            for id in range(1, maximum + 1):
                wire.expect("PUBCOMP")


class PacketSize(Case):
    @vowmq_only("does not count the fixed header")
    def test_of_the_client(self):
        """A message that is too large for it counts as delivered; one that just fits comes.

        [MQTT5-3.1.2-24], [MQTT5-3.1.2-25]
        """
        wire = self.subscribed("c", ("a", 2), maximum_packet=100, clean=False, session_expiry=60)
        publisher = self.connected("p")
        for qos in (0, 1, 2):
            # A byte of flags, one of length, "a" with its length, an identifier, no properties.
            fits = 100 - 2 - 3 - (2 if qos else 0) - 1
            publisher.publish("a", "l" * (fits + 1), qos)
            publisher.publish("a", "f" * fits, qos)
            found = wire.message()
            self.assertEqual((found.payload[:1], found.size), (b"f", 100))
        self.assertSilent(wire)
        wire.leave()
        again = self.connected("c", clean=False, session_expiry=60)
        self.assertSilent(again)

    def test_of_the_client_with_properties(self):
        """Properties count."""
        wire = self.subscribed("c", "a", maximum_packet=60)
        publisher = self.connected("p")
        publisher.publish("a", "x", user=[("k", "v" * 60)])
        publisher.publish("a", "y", user=[("k", "v" * 20)])
        self.assertEqual(wire.message().payload, b"y")

    def test_another_maximum_with_each_connection(self):
        """What is stored is judged by who takes it."""
        self.subscribed("c", "a", clean=False, session_expiry=60, maximum_packet=50).leave()
        self.connected("p").publish("a", "x" * 100)
        wire = self.connected("c", clean=False, session_expiry=60)
        self.assertEqual(len(wire.message().payload), 100)

    def test_retained_too(self):
        """A retained message that is too large does not come."""
        publisher = self.connected("p")
        publisher.publish("a/1", "x" * 100, retain=True)
        publisher.publish("a/2", "x", retain=True)
        wire = self.subscribed("c", "a/#", maximum_packet=50)
        self.assertEqual(wire.message().topic, "a/2")
        self.assertSilent(wire)

    @vowmq_only("waits for all of it")
    def test_of_the_broker(self):
        """One byte above what CONNACK says: 0x95. [MQTT5-3.2.2-15]"""
        wire = self.connected("c")
        maximum = wire.connack.properties.get("maximum_packet")
        if maximum is None:
            self.assertIn(wire.publish("a", b"x" * 10_000_000), (0, 0x10))
            return
        head = len(w.publish("a", b"x" * maximum, 1, 1)) - maximum
        self.assertIn(wire.publish("a", b"x" * (maximum - head)), (0, 0x10))
        wire.send(w.publish("a", b"x" * (maximum - head + 1), 1, 2)[:1000])
        self.assertEnds(wire, 0x95)

    def test_large_payloads(self):
        """B76: byte for byte, and nobody else waits."""
        wire = self.subscribed("c", "a", alias_maximum=0)
        publisher = self.connected("p")
        maximum = wire.connack.properties.get("maximum_packet", 1 << 28)
        for size in (65535, 65536, 65537, 1_000_000):
            if size + 100 > maximum:
                continue
            body = bytes(n * 7 % 251 for n in range(size))
            publisher.publish("a", body)
            self.assertTrue(wire.message().payload == body, size)
