"""An acknowledgement means that it is on disk: killed right behind it, it is still there."""

import time

import wire as w
from broker import FOREVER, Case

PROPERTIES = dict(content_type="t", correlation_data=b"\0\xff", user=[("a", "1"), ("a", "2")])


class Durability(Case):
    def test_puback_and_pubrec(self):
        """B41: the message, for a session whose owner is away. [MQTT5-4.3.2-4], [MQTT5-4.3.3-8], [MQTT5-4.5.0-1]"""
        self.subscribed("s", ("a/#", 2), clean=False, session_expiry=FOREVER).leave()
        publisher = self.connected("p")
        for number in range(20):
            publisher.publish(f"a/{number}", f"{number}", 1 + number % 2, **PROPERTIES)
        self.broker.restart()
        wire = self.connected("s", clean=False, session_expiry=FOREVER)
        self.assertTrue(wire.connack.session_present)
        found = wire.messages(20)
        self.assertEqual([(m.payload, m.qos) for m in found], [(b"%d" % n, 1 + n % 2) for n in range(20)])
        self.assertEqual([m.properties for m in found], [PROPERTIES] * 20)
        self.assertSilent(wire)

    def test_by_paho(self):
        """The same between clients."""
        first = self.paho("s", clean=False, SessionExpiryInterval=FOREVER)
        first.subscribe("a", 2)
        first.close()
        self.paho("p").publish("a", "x", 1, UserProperty=("k", "v"))
        self.broker.restart()
        again = self.paho("s", clean=False, SessionExpiryInterval=FOREVER)
        found = again.next()
        self.assertEqual((found.payload, found.properties.UserProperty), (b"x", [("k", "v")]))

    def test_suback(self):
        """B44: every subscription with its options and its identifier; live again before its owner is back."""
        wire = self.connected("s", clean=False, session_expiry=FOREVER)
        wire.subscribe(("a", 2 | 4 | 8), subscription_identifier=70_000)
        wire.subscribe(("b", 2))
        wire.subscribe(("gone", 2))
        wire.unsubscribe("gone")
        self.broker.restart()
        publisher = self.connected("p")
        for topic in ("a", "b", "gone"):
            publisher.publish(topic, topic, 2, retain=True)
        wire = self.connected("s", clean=False, session_expiry=FOREVER)
        first, second = wire.messages(2)
        self.assertEqual((first.topic, first.retain), ("a", True))
        self.assertEqual(first.properties, dict(subscription_identifier=[70_000]))
        self.assertEqual((second.topic, second.retain, second.properties), ("b", False, {}))
        self.assertSilent(wire)
        wire.publish("a", "mine")
        self.assertSilent(wire)

    def test_completed_does_not_come_again(self):
        """B85: QoS 2 that was completed is over."""
        wire = self.subscribed("s", ("a", 2), clean=False, session_expiry=FOREVER)
        publisher = self.connected("p")
        for number in range(5):
            publisher.publish("a", f"{number}", 2)
        wire.messages(5)
        time.sleep(0.5)  # PUBREL waits for the disk, and nobody waits for the record of PUBCOMP
        self.assertSilent(wire)
        self.broker.restart()
        self.assertSilent(self.connected("s", clean=False, session_expiry=FOREVER))

    def test_exchanges_go_on(self):
        """QoS 2 both ways: identifiers and stages survive."""
        publisher = self.connected("p", clean=False, session_expiry=FOREVER)
        wire = self.subscribed("s", ("b", 2), clean=False, session_expiry=FOREVER)
        publisher.publish("b", "y", 2)
        publisher.send(w.publish("a", "x", 2, 7))
        publisher.expect("PUBREC")
        sent = wire.expect("PUBLISH")
        wire.send(w.answer("PUBREC", sent.id))
        wire.expect("PUBREL")
        self.broker.restart()
        publisher = self.connected("p", clean=False, session_expiry=FOREVER)
        publisher.send(w.publish("a", "x", 2, 7, dup=True))
        publisher.expect("PUBREC")
        publisher.send(w.answer("PUBREL", 7))
        self.assertEqual(publisher.expect("PUBCOMP").reason, 0)
        wire = self.connected("s", clean=False, session_expiry=FOREVER)
        self.assertEqual(wire.expect("PUBREL").id, sent.id)
        wire.send(w.answer("PUBCOMP", sent.id))
        self.assertSilent(wire)

    def test_session_of_nothing_leaves_nothing(self):
        """B40: with an expiry of 0 the queue does not outlive a kill."""
        self.subscribed("s", "a", session_expiry=0)
        self.broker.restart()
        self.connected("p").publish("a", "x")
        wire = self.connected("s", clean=False)
        self.assertFalse(wire.connack.session_present)
        self.assertSilent(wire)
