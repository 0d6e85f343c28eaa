"""Clients of 3.1, 3.1.1 and 5 on the same topics: each sees what its version can say."""

import time

import wire as w
from broker import Case, vowmq_only

ALL = dict(payload_format=1, content_type="t", response_topic="r", correlation_data=b"c", user=[("k", "v")])


class Versions(Case):
    def test_to_one_another(self):
        """Payload, QoS and RETAIN cross; properties reach who can hold them."""
        wires = {4: self.subscribed("four", ("a", 2), version=4), 5: self.subscribed("five", ("a", 2))}
        for version in (4, 5):
            publisher = self.connected("p", version=version)
            for qos in (0, 1, 2):
                publisher.publish("a", f"{version}{qos}", qos, **(ALL if version == 5 else {}))
        for version, wire in wires.items():
            for m, (said, qos) in zip(wire.messages(6), [(v, q) for v in (4, 5) for q in (0, 1, 2)]):
                self.assertEqual((m.payload, m.qos), (f"{said}{qos}".encode(), qos))
                self.assertEqual(m.properties, ALL if said == version == 5 else {})

    def test_retained(self):
        """What 5 retained 3.1.1 gets without properties, and the other way round."""
        self.connected("p").publish("five", "5", retain=True, **ALL)
        self.connected("p", version=4).publish("four", "4", retain=True)
        old = self.subscribed("old", "#", version=4)
        self.assertEqual(sorted((m.topic, m.payload, m.retain) for m in old.messages(2)), [("five", b"5", True), ("four", b"4", True)])
        new = self.subscribed("new", "#")
        self.assertEqual({m.topic: m.properties for m in new.messages(2)}, {"five": ALL, "four": {}})

    def test_session_of_both(self):
        """A session begun by one version goes on with the other; properties of what is stored are there for 5."""
        wire = self.subscribed("s", ("a", 1), version=4, clean=False)
        wire.leave()
        publisher = self.connected("p")
        publisher.publish("a", "1", **ALL)
        five = self.connected("s", clean=False, session_expiry=60)
        self.assertTrue(five.connack.session_present)
        self.assertEqual(five.message().properties, ALL)
        five.leave()
        publisher.publish("a", "2", **ALL)
        four = self.connected("s", clean=False, version=4)
        self.assertTrue(four.connack.session_present)
        self.assertEqual(four.message().payload, b"2")

    def test_expiry_is_kept_from_3_1_1_too(self):
        """An expired message does not come to a client that cannot say so."""
        self.subscribed("s", "a", version=4, clean=False).leave()
        publisher = self.connected("p")
        publisher.publish("a", "short", message_expiry=1)
        publisher.publish("a", "long", message_expiry=30)
        time.sleep(2.2)
        four = self.connected("s", clean=False, version=4)
        self.assertEqual(four.message().payload, b"long")

    def test_options_are_5_only(self):
        """3.1.1 gets its own messages back, RETAIN 0 and retained ones with each SUBSCRIBE; option bits end it."""
        wire = self.subscribed("c", "a", version=4)
        wire.publish("a", "mine", 0, retain=True)
        found = wire.message()
        self.assertEqual((found.payload, found.retain), (b"mine", False))
        wire.subscribe("a")
        self.assertTrue(wire.message().retain)
        wire.send(w.subscribe(9, ("a", 1 | 4), version=4))
        self.assertIsNone(wire.packet())

    @vowmq_only("takes it")
    def test_refused_filter_of_3_1_1(self):
        """A wrong shared filter: 0x80 or the end, never 0x8F."""
        wire = self.connected("c", version=4)
        wire.send(w.subscribe(1, "$share//a", version=4))
        found = wire.packet()
        self.assertTrue(found is None or found.reasons == [0x80], found)

    def test_will_of_5_to_3_1_1(self):
        """Properties stay behind; the delay holds."""
        four = self.subscribed("four", "w", version=4)
        self.connected("d", will=("w", "gone", 1, False, ALL)).close()
        self.assertEqual(four.message().payload, b"gone")
