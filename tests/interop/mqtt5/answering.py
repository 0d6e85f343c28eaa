"""What each packet is answered with, byte for byte where it matters, and in which order."""

import wire as w
from broker import Case, vowmq_only

# An order in which a subscriber may answer.
SHUFFLED = (4, 0, 7, 2, 9, 1, 5, 8, 3, 6)


class Answering(Case):
    def test_bytes_of_deliveries(self):
        """Topic, identifier with QoS 1 and 2 only, a length of 0 for no properties; no DUP, whatever the publisher said.

        [MQTT5-2.2.1-2], [MQTT5-2.2.2-1], [MQTT5-3.3.1-3], [MQTT5-3.3.2-1], [MQTT5-4.3.1-1], [MQTT5-4.3.2-2],
        [MQTT5-4.3.3-2]
        """
        wire = self.subscribed("c", ("a", 2))
        publisher = self.connected("p")
        publisher.send(w.publish("a", "x"))
        self.assertEqual(wire.exactly(7).hex(), "30050001610078")
        for qos, first in ((1, "32"), (2, "34")):
            publisher.send(w.publish("a", "x", qos, 7, dup=True))
            if publisher.packet().kind == "PUBREC":
                publisher.send(w.answer("PUBREL", 7))
            got = wire.exactly(9).hex()
            self.assertEqual((got[:10], got[14:]), (first + "07000161", "0078"))
            self.assertNotEqual(got[10:14], "0000")

    def test_by_qos(self):
        """PUBLISH: nothing, PUBACK, PUBREC; PUBREL: PUBCOMP; under the identifier that came.

        [MQTT5-2.2.1-5], [MQTT5-3.3.4-1], [MQTT5-4.3.2-4], [MQTT5-4.3.3-8], [MQTT5-4.3.3-11]
        """
        wire = self.connected("c")
        wire.send(w.publish("a", "x", 0))
        self.assertSilent(wire)
        for id in (1, 0x1234, 0xFFFF):
            wire.send(w.publish("a", "x", 1, id))
            self.assertLess(wire.expect("PUBACK", id).reason, 0x80)
            wire.send(w.publish("a", "x", 2, id))
            self.assertLess(wire.expect("PUBREC", id).reason, 0x80)
            wire.send(w.answer("PUBREL", id))
            self.assertEqual(wire.expect("PUBCOMP", id).reason, 0)
        self.assertSilent(wire)

    def test_of_the_subscriber(self):
        """PUBREC is answered with PUBREL, under the identifier of the message. [MQTT5-2.2.1-5], [MQTT5-4.3.3-4]"""
        wire = self.subscribed("c", ("a", 2))
        self.connected("p").publish("a", "x", 2)
        id = wire.expect("PUBLISH").id
        wire.send(w.answer("PUBREC", id))
        self.assertEqual(wire.expect("PUBREL", id).reason, 0)
        wire.send(w.answer("PUBCOMP", id))
        self.assertSilent(wire)

    @vowmq_only("ends the connection at a wrong filter")
    def test_requests(self):
        """One answer to each, under its identifier, with a reason for each filter in their order.

        [MQTT5-2.2.1-6], [MQTT5-3.8.4-1], [MQTT5-3.8.4-2], [MQTT5-3.8.4-5], [MQTT5-3.8.4-6], [MQTT5-3.8.4-7],
        [MQTT5-3.9.3-1], [MQTT5-3.10.4-4], [MQTT5-3.10.4-5], [MQTT5-3.10.4-6], [MQTT5-3.11.3-1], [MQTT5-3.12.4-1]
        """
        wire = self.connected("c")
        wire.send(w.subscribe(0xFFFF, ("a", 2), ("a#", 0), ("b", 0), ("c", 1)), w.frame("PINGREQ", b""))
        self.assertEqual(wire.expect("SUBACK", 0xFFFF).reasons, [2, 0x8F, 0, 1])
        wire.expect("PINGRESP")
        wire.send(w.unsubscribe(0x1234, "none", "b", "c", "nix"), w.frame("PINGREQ", b""))
        self.assertEqual(wire.expect("UNSUBACK", 0x1234).reasons, [0x11, 0, 0, 0x11])
        wire.expect("PINGRESP")
        wire.send(w.unsubscribe(1, "none"))
        self.assertEqual(wire.expect("UNSUBACK", 1).reasons, [0x11])
        self.connected("p").publish("a", "x")
        self.assertEqual(wire.message().payload, b"x")

    def test_connack_before_all_else(self):
        """Of what a resumed session gets, and of what was asked in the same moment.

        [MQTT5-3.1.4-5], [MQTT5-3.2.0-1], [MQTT5-3.2.0-2]
        """
        self.subscribed("c", ("a", 2), clean=False, session_expiry=60).leave()
        publisher = self.connected("p")
        for number in range(5):
            publisher.publish("a", f"{number}", 1 + number % 2)
        wire = self.wire()
        rest = w.frame("PINGREQ", b"") + w.subscribe(1, "b") + w.publish("b", "x", 1, 1)
        wire.send(w.connect("c", clean=False, session_expiry=60) + rest)
        connack = wire.expect("CONNACK")
        self.assertEqual((connack.session_present, connack.reason), (True, 0))
        kinds = sorted(wire.packet().kind for _ in range(9))
        self.assertEqual(kinds, ["PINGRESP", "PUBACK"] + ["PUBLISH"] * 6 + ["SUBACK"])
        self.assertSilent(wire)

    def test_order_of_what_a_publisher_gets(self):
        """PUBACK and PUBREC in the order of PUBLISH, PUBCOMP in that of PUBREL. [MQTT5-4.6.0-2], [MQTT5-4.6.0-3]"""
        self.subscribed("away", ("a", 2), clean=False, session_expiry=60).leave()
        wire = self.connected("c")
        ids = [(n * 7919) % 60000 + 1 for n in range(80)]
        wire.send(*(w.publish("a", "x", 1 + n % 2, id) for n, id in enumerate(ids)))
        found = [wire.packet() for _ in ids]
        for kind, expected in (("PUBACK", ids[::2]), ("PUBREC", ids[1::2])):
            self.assertEqual([m.id for m in found if m.kind == kind], expected)
        order = ids[::-2]
        wire.send(*(w.answer("PUBREL", id) for id in order))
        self.assertEqual([wire.expect("PUBCOMP").id for _ in order], order)

    def test_order_of_what_a_subscriber_gets(self):
        """PUBREL in the order of PUBREC. [MQTT5-4.6.0-4]"""
        wire = self.subscribed("c", ("a", 2))
        publisher = self.connected("p")
        for number in range(10):
            publisher.publish("a", f"{number}", 2)
        sent = [wire.expect("PUBLISH").id for _ in range(10)]
        order = [sent[n] for n in SHUFFLED]
        wire.send(*(w.answer("PUBREC", id) for id in order))
        self.assertEqual([wire.expect("PUBREL").id for _ in order], order)

    def test_order_of_messages(self):
        """Of one publisher, topic and QoS, whatever the topic, through a small window too.

        [MQTT5-4.6.0-5], [MQTT5-4.6.0-6]
        """
        wires = {"wide": self.subscribed("wide", ("#", 2)), "small": self.subscribed("small", ("#", 2), receive_maximum=2)}
        publishers = {name: self.connected(name) for name in "pq"}
        said = [(f"{n % 5}/x", f"{name} {n:02}", n // 5 % 3) for n in range(45) for name in "pq"]
        for topic, payload, qos in said:
            publishers[payload[0]].publish(topic, payload, qos)
        for name, wire in wires.items():
            got = [(m.topic, m.payload.decode(), m.qos) for m in wire.messages(90)]
            self.assertEqual(sorted(got), sorted(said), name)

            def stream(one):
                return one[0], one[1][0], one[2]

            for of in set(map(stream, said)):
                expected = [one for one in said if stream(one) == of]
                self.assertEqual([one for one in got if stream(one) == of], expected, name)
