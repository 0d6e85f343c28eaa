"""Message expiry."""

import time

import wire as w
from broker import Case, vowmq_only


class Expiring(Case):
    def test_lessened_by_waiting(self):
        """B64: 10 seconds, 2 of them waited: 8 are left, or 7; at once it is 10. [MQTT5-3.3.2-6]"""
        live = self.subscribed("live", "a")
        self.subscribed("away", "a", clean=False, session_expiry=60).leave()
        self.connected("p").publish("a", "x", message_expiry=10)
        self.assertIn(live.message().properties["message_expiry"], (9, 10))
        time.sleep(2.1)
        away = self.connected("away", clean=False, session_expiry=60)
        self.assertIn(away.message().properties["message_expiry"], (7, 8))

    def test_expired_for_who_is_away(self):
        """Does not come; the others do, in order. [MQTT5-3.3.2-5]"""
        self.subscribed("away", ("a", 2), clean=False, session_expiry=60).leave()
        publisher = self.connected("p")
        for number in range(6):
            publisher.publish("a", f"{number}", 1 + number % 2, **({"message_expiry": 1} if number % 3 == 0 else {}))
        time.sleep(2.2)
        away = self.connected("away", clean=False, session_expiry=60)
        self.assertEqual(sorted(m.payload for m in away.messages(4)), [b"1", b"2", b"4", b"5"])
        self.assertSilent(away)

    def test_retained(self):
        """Lessened and expired in the same way. [MQTT5-3.3.2-5], [MQTT5-3.3.2-6]"""
        publisher = self.connected("p")
        publisher.publish("short", "x", retain=True, message_expiry=1)
        publisher.publish("long", "x", retain=True, message_expiry=10)
        publisher.publish("ever", "x", retain=True)
        time.sleep(2.2)
        wire = self.subscribed("c", "#")
        found = {m.topic: m.properties.get("message_expiry") for m in wire.messages(2)}
        self.assertSilent(wire)
        self.assertEqual(set(found), {"long", "ever"})
        self.assertIn(found["long"], (7, 8))
        self.assertIsNone(found["ever"])

    @vowmq_only("stops sending behind an expired message")
    def test_behind_a_full_window(self):
        """What waits for room expires as well. [MQTT5-3.3.2-5]"""
        wire = self.subscribed("c", "a", receive_maximum=1)
        publisher = self.connected("p")
        publisher.publish("a", "first")
        publisher.publish("a", "short", message_expiry=1)
        publisher.publish("a", "last")
        first = wire.expect("PUBLISH")
        time.sleep(2.2)
        wire.send(w.answer("PUBACK", first.id))
        self.assertEqual(wire.message().payload, b"last")
        self.assertSilent(wire)

    @vowmq_only("lets what was sent expire too")
    def test_begun_is_completed(self):
        """B62: what was sent is sent again and ends its exchange, expired or not, in both directions.

        [MQTT5-4.3.3-7], [MQTT5-4.3.3-13]
        """
        wire = self.subscribed("c", ("a", 2), clean=False, session_expiry=60)
        publisher = self.connected("p")
        publisher.publish("a", "sent", 2, message_expiry=1)
        publisher.publish("a", "received", 2, message_expiry=1)
        sent, received = wire.expect("PUBLISH"), wire.expect("PUBLISH")
        wire.send(w.answer("PUBREC", received.id))
        wire.expect("PUBREL")
        publisher.send(w.publish("b", "of the client", 2, 999, message_expiry=1))
        publisher.expect("PUBREC", 999)
        wire.close()
        time.sleep(2.2)
        publisher.send(w.publish("b", "of the client", 2, 999, dup=True, message_expiry=1), w.answer("PUBREL", 999))
        publisher.expect("PUBREC", 999)
        self.assertEqual(publisher.expect("PUBCOMP", 999).reason, 0)
        wire = self.connected("c", clean=False, session_expiry=60)
        again, release = wire.packet(), wire.packet()
        if again.kind == "PUBREL":
            again, release = release, again
        self.assertEqual((again.kind, again.id, again.dup), ("PUBLISH", sent.id, True))
        self.assertEqual((release.kind, release.id), ("PUBREL", received.id))
        wire.send(w.answer("PUBCOMP", received.id), w.answer("PUBREC", sent.id))
        wire.expect("PUBREL")
        wire.send(w.answer("PUBCOMP", sent.id))
        publisher.publish("a", "next", 2)
        self.assertEqual(wire.message().payload, b"next")

    def test_over_a_kill(self):
        """Runs on by the wall clock while the broker is down, stored and retained."""
        self.subscribed("away", "a", clean=False, session_expiry=60).leave()
        publisher = self.connected("p")
        for topic in "ar":
            publisher.publish(topic, "short", message_expiry=2)
            publisher.publish(topic, "long", retain=topic == "r", message_expiry=20)
        self.broker.kill()
        time.sleep(3)
        self.broker.start()
        away = self.connected("away", clean=False, session_expiry=60)
        found = away.message()
        self.assertEqual(found.payload, b"long")
        self.assertIn(found.properties["message_expiry"], (15, 16, 17))
        self.assertSilent(away)
        found = self.subscribed("c", "r").message()
        self.assertIn(found.properties["message_expiry"], (15, 16, 17))

    @vowmq_only("takes 0 for none")
    def test_bounds(self):
        """0 is over at once for who is away; the largest is no other number."""
        self.subscribed("away", "a", clean=False, session_expiry=60).leave()
        publisher = self.connected("p")
        publisher.publish("a", "largest", message_expiry=0xFFFFFFFF)
        publisher.publish("a", "none", message_expiry=0)
        time.sleep(1.1)
        away = self.connected("away", clean=False, session_expiry=60)
        found = away.message()
        self.assertEqual(found.payload, b"largest")
        self.assertGreater(found.properties["message_expiry"], 0xFFFFFFFF - 10)
        self.assertSilent(away)
