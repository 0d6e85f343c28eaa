"""What UNSUBSCRIBE takes away, and what it leaves."""

import wire as w
from broker import Case


class Unsubscribing(Case):
    def test_character_by_character(self):
        """Only the filter itself, not what it matches or what means the same. [MQTT5-3.10.4-1]"""
        wire = self.subscribed("c", "a/+", "A/+", "é", "#")
        for name in ("a/b", "a/#", "a/+/", "e\u0301", "+", "$share/g/a/+"):
            self.assertEqual(wire.unsubscribe(name), [0x11], name)
        self.assertEqual(wire.unsubscribe("#"), [0])
        publisher = self.connected("p")
        for topic in ("a/b", "A/b", "é", "b"):
            publisher.publish(topic)
        self.assertEqual([m.topic for m in wire.messages(3)], ["a/b", "A/b", "é"])
        self.assertEqual(wire.unsubscribe("A/+", "é"), [0, 0])
        for topic in ("A/b", "é", "a/b"):
            publisher.publish(topic)
        self.assertEqual(wire.message().topic, "a/b")
        self.assertSilent(wire)

    def test_nothing_new(self):
        """At any QoS, live and for who is away, of all the filters of one UNSUBSCRIBE. [MQTT5-3.10.4-2]"""
        wire = self.subscribed("c", ("a", 2), ("b", 2), ("c", 2), clean=False, session_expiry=60)
        publisher = self.connected("p")
        self.assertEqual(wire.unsubscribe("a", "c"), [0, 0])
        for topic in "abc":
            for qos in (0, 1, 2):
                publisher.publish(topic, f"{qos}", qos)
        self.assertEqual([m.topic for m in wire.messages(3)], ["b"] * 3)
        self.assertSilent(wire)
        wire.leave()
        publisher.publish("a", "x", 1)
        self.assertSilent(self.connected("c", clean=False, session_expiry=60))

    def test_as_one_after_the_other(self):
        """A filter that is named twice is gone the second time. [MQTT5-3.10.4-6]"""
        wire = self.subscribed("c", "a", "b")
        self.assertEqual(wire.unsubscribe("a", "b", "a"), [0, 0, 0x11])

    def test_begun_is_completed(self):
        """What was sent goes on to the end of its exchange, and is sent again on a resume. [MQTT5-3.10.4-3]"""
        wire = self.subscribed("c", ("a", 2), clean=False, session_expiry=60)
        publisher = self.connected("p")
        for qos in (1, 2, 2):
            publisher.publish("a", f"{qos}", qos)
        one, two, three = (wire.expect("PUBLISH") for _ in range(3))
        self.assertEqual(wire.unsubscribe("a"), [0])
        wire.send(w.answer("PUBREC", three.id))
        wire.expect("PUBREL", three.id)
        wire.close()
        wire = self.connected("c", clean=False, session_expiry=60)
        found = [wire.packet() for _ in range(3)]
        self.assertEqual([(m.id, m.payload, m.dup) for m in found if m.kind == "PUBLISH"], [(one.id, b"1", True), (two.id, b"2", True)])
        self.assertEqual([m.id for m in found if m.kind == "PUBREL"], [three.id])
        wire.send(w.answer("PUBACK", one.id), w.answer("PUBREC", two.id), w.answer("PUBCOMP", three.id))
        wire.expect("PUBREL", two.id)
        wire.send(w.answer("PUBCOMP", two.id))
        self.assertSilent(wire)
