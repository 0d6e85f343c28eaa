"""Acknowledgements: reasons, repetitions, and what belongs to nothing."""

import wire as w
from broker import Case, vowmq_only


class Acknowledging(Case):
    def test_no_subscribers(self):
        """Success or 0x10, never a failure."""
        wire = self.connected("c")
        self.assertIn(wire.publish("nobody", "x", 1), (0, 0x10))
        self.assertIn(wire.publish("nobody", "x", 2), (0, 0x10))

    @vowmq_only("ends the connection at the second")
    def test_repeated_before_pubrel(self):
        """B46: PUBREC each time, one copy, one PUBCOMP. [MQTT5-4.3.3-10], [MQTT5-4.3.3-11]"""
        watcher = self.subscribed("watcher", ("a", 2))
        wire = self.connected("c")
        wire.send(w.publish("a", "x", 2, 1))
        wire.expect("PUBREC")
        for _ in range(3):
            wire.send(w.publish("a", "x", 2, 1, dup=True))
            self.assertEqual(wire.expect("PUBREC").id, 1)
        wire.send(w.answer("PUBREL", 1))
        self.assertEqual(wire.expect("PUBCOMP").reason, 0)
        watcher.message()
        self.assertSilent(watcher)

    def test_identifier_is_free_afterwards(self):
        """After PUBACK and PUBCOMP it names another message, DUP or not. [MQTT5-3.3.1-3], [MQTT5-4.3.2-5], [MQTT5-4.3.3-12]"""
        watcher = self.subscribed("watcher", ("a", 2))
        wire = self.connected("c")
        for qos in (1, 1, 2, 2):
            wire.send(w.publish("a", "x", qos, 7, dup=True))
            if qos == 2:
                wire.expect("PUBREC")
                wire.send(w.answer("PUBREL", 7))
                wire.expect("PUBCOMP")
            else:
                wire.expect("PUBACK")
        found = watcher.messages(4)
        self.assertEqual([m.dup for m in found], [False] * 4)

    @vowmq_only("says 0")
    def test_unknown_identifiers(self):
        """0x92 to a PUBREL and a PUBREC of what was never sent. [MQTT5-3.6.2-1], [MQTT5-3.7.2-1]"""
        wire = self.connected("c")
        wire.send(w.answer("PUBREL", 77))
        found = wire.expect("PUBCOMP")
        self.assertEqual((found.id, found.reason), (77, 0x92))
        wire.send(w.answer("PUBREC", 78))
        found = wire.expect("PUBREL")
        self.assertEqual((found.id, found.reason), (78, 0x92))
        self.assertSilent(wire)

    def test_of_the_wrong_kind(self):
        """B54: PUBACK for QoS 2, PUBREC and PUBCOMP for QoS 1: not the end of the exchange.

        [MQTT5-4.3.2-3], [MQTT5-4.3.3-3]
        """
        for qos, kind in ((2, "PUBACK"), (1, "PUBREC"), (1, "PUBCOMP")):
            with self.subTest(kind):
                wire = self.subscribed("c", ("a", 2), clean=True, session_expiry=60)
                self.connected("p").publish("a", "x", qos)
                sent = wire.expect("PUBLISH")
                wire.send(w.answer(kind, sent.id))
                packet = wire.ping()
                self.assertIn(packet and packet.kind, (None, "DISCONNECT", "PUBREL", "PINGRESP"))
                if packet and packet.kind == "DISCONNECT":
                    self.assertEqual(packet.reason, 0x82)
                wire.close()
                again = self.connected("c", clean=False, session_expiry=60)
                found = again.message()
                self.assertEqual((found.id, found.payload, found.dup), (sent.id, b"x", True))

    def test_failure_of_the_client(self):
        """PUBACK and PUBREC of 0x80 and above: acknowledged, never sent again. [MQTT5-4.4.0-2]"""
        wire = self.subscribed("c", ("a", 2), clean=False, session_expiry=60)
        publisher = self.connected("p")
        for qos, kind in ((1, "PUBACK"), (2, "PUBREC")):
            publisher.publish("a", "x", qos)
            wire.send(w.answer(kind, wire.expect("PUBLISH").id, 0x80, reason_string="no", user=[("a", "b")]))
        self.assertSilent(wire)
        wire.leave()
        self.assertSilent(self.connected("c", clean=False, session_expiry=60))

    def test_long_forms(self):
        """Acknowledgements with their reason, with an empty property list, and short: all the same."""
        wire = self.subscribed("c", ("a", 2))
        publisher = self.connected("p")
        for tail in (b"", b"\0", b"\0\0"):
            publisher.publish("a", "x", 2)
            number = wire.expect("PUBLISH").id
            id = number.to_bytes(2, "big")
            wire.send(w.frame("PUBREC", id + tail))
            wire.expect("PUBREL", number)
            wire.send(w.frame("PUBCOMP", id + tail))
        self.assertSilent(wire)

    def test_problem_information(self):
        """With 0 no reason string and no user property but in PUBLISH, CONNACK and DISCONNECT. [MQTT5-3.1.2-29]"""
        wire = self.connected("c", request_problem=0)
        wire.send(w.subscribe(1, "$share/g/", "a"))
        packets = [wire.packet()]
        if packets[0] and packets[0].kind == "SUBACK":
            wire.send(w.unsubscribe(2, "none"), w.publish("a", "x", 2, 3))
            packets += [wire.packet() for _ in range(2)]
        for packet in packets:
            if packet and packet.kind not in ("PUBLISH", "CONNACK", "DISCONNECT"):
                self.assertEqual(set(packet.properties) & {"reason_string", "user"}, set(), packet)
        wire = self.subscribed("d", "a", request_problem=0)
        self.connected("p").publish("a", "x", user=[("a", "b")])
        self.assertEqual(wire.message().properties, dict(user=[("a", "b")]))

    def test_identifiers_are_unused(self):
        """B50: no two messages in flight have the same, and what is resent keeps its own.

        [MQTT5-2.2.1-4], [MQTT5-4.3.2-1], [MQTT5-4.3.3-1]
        """
        wire = self.subscribed("c", ("a", 2))
        publisher = self.connected("p")
        out = {}
        for number in range(60):
            publisher.publish("a", f"{number}", 1 + number % 2)
            found = wire.expect("PUBLISH")
            self.assertNotIn(found.id, out)
            out[found.id] = found
            settled = [min(out) if number % 2 else max(out)] if number % 3 == 2 else list(out) if len(out) > 15 else []
            for id in settled:
                if out.pop(id).qos == 1:
                    wire.send(w.answer("PUBACK", id))
                else:
                    wire.send(w.answer("PUBREC", id))
                    wire.expect("PUBREL", id)
                    wire.send(w.answer("PUBCOMP", id))

    def test_resent_in_order(self):
        """On resume: PUBLISH with DUP and PUBREL, in order, under their identifiers; on no other occasion.

        [MQTT5-3.3.1-1], [MQTT5-4.3.2-2], [MQTT5-4.3.2-3], [MQTT5-4.3.3-2], [MQTT5-4.3.3-3], [MQTT5-4.3.3-5],
        [MQTT5-4.3.3-6], [MQTT5-4.4.0-1], [MQTT5-4.6.0-1]
        """
        wire = self.subscribed("c", ("a", 2), clean=False, session_expiry=60)
        publisher = self.connected("p")
        for number in range(6):
            publisher.publish("a", f"{number}", 1 + number % 2)
        sent = [wire.expect("PUBLISH") for _ in range(6)]
        self.assertEqual({m.dup for m in sent}, {False})
        wire.send(w.answer("PUBREC", sent[1].id), w.answer("PUBACK", sent[2].id))
        wire.expect("PUBREL")
        self.assertSilent(wire)
        wire.close()
        wire = self.connected("c", clean=False, session_expiry=60)
        found = [wire.packet() for _ in range(5)]
        again = [m for m in found if m.kind == "PUBLISH"]
        self.assertEqual([m.id for m in again], [sent[n].id for n in (0, 3, 4, 5)])
        self.assertEqual({m.dup for m in again}, {True})
        self.assertEqual([m.id for m in found if m.kind == "PUBREL"], [sent[1].id])

    def test_subscription_that_changes(self):
        """B52: QoS 2 and QoS 0 by turns with a message left each time: delivery goes on."""
        wire = self.subscribed("c", ("a", 2), receive_maximum=30)
        publisher = self.connected("p")
        for number in range(20):
            publisher.publish("a", f"{number}", 2)
            wire.expect("PUBLISH")
            wire.subscribe(("a", 0))
            wire.subscribe(("a", 2))
        publisher.publish("a", "last", 2)
        self.assertEqual(wire.expect("PUBLISH").payload, b"last")
