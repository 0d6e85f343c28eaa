"""What a subscription asks for: no-local, retain-as-published, retain handling, identifiers."""

from broker import Case

NO_LOCAL, AS_PUBLISHED, IF_NEW, NEVER = 4, 8, 16, 32


class Options(Case):
    def test_no_local(self):
        """Nothing comes back to the client that said it; all else does. [MQTT5-3.8.3-3]"""
        wire = self.subscribed("c", ("a", 1 | NO_LOCAL), ("b", 1))
        wire.publish("a", "mine", 0)
        wire.publish("a", "mine")
        self.connected("p").publish("a", "another's")
        self.assertEqual(wire.message().payload, b"another's")
        wire.publish("b", "mine", 0)
        self.assertEqual(wire.message().topic, "b")

    def test_no_local_of_a_later_connection(self):
        """The identifier counts, not the connection."""
        self.subscribed("c", ("a", 1 | NO_LOCAL), clean=False, session_expiry=60).leave()
        wire = self.connected("c", clean=False, session_expiry=60)
        wire.publish("a", "mine")
        self.assertSilent(wire)

    def test_retain_as_published(self):
        """B25: RETAIN as the publisher set it, or 0 to existing subscriptions; 1 to new ones of either sort.

        [MQTT5-3.3.1-12], [MQTT5-3.3.1-13]
        """
        plain, kept = self.subscribed("plain", "a"), self.subscribed("kept", ("a", 1 | AS_PUBLISHED))
        publisher = self.connected("p")
        publisher.publish("a", "1", retain=True)
        publisher.publish("a", "2", retain=False)
        self.assertEqual([m.retain for m in plain.messages(2)], [False, False])
        self.assertEqual([m.retain for m in kept.messages(2)], [True, False])
        for client, options in (("late", 1), ("late kept", 1 | AS_PUBLISHED)):
            late = self.subscribed(client, ("a", options))
            found = late.message()
            self.assertEqual((found.payload, found.retain), (b"1", True))

    def test_retain_as_published_for_who_is_away(self):
        """What is stored keeps its flag."""
        self.subscribed("c", ("a", 1 | AS_PUBLISHED), clean=False, session_expiry=60).leave()
        publisher = self.connected("p")
        publisher.publish("a", "1", retain=True)
        publisher.publish("a", "2")
        wire = self.connected("c", clean=False, session_expiry=60)
        self.assertEqual([m.retain for m in wire.messages(2)], [True, False])

    def test_retain_handling(self):
        """0: with each SUBSCRIBE; 1: with a new subscription only; 2: never.

        [MQTT5-3.3.1-9], [MQTT5-3.3.1-10], [MQTT5-3.3.1-11], [MQTT5-3.8.4-4]
        """
        self.connected("p").publish("a", "kept", retain=True)
        wire = self.connected("c")
        for options, comes in (
            (1 | NEVER, False),
            (1 | IF_NEW, False),
            (1, True),
            (1 | IF_NEW, False),
            (2, True),
            (1 | NEVER, False),
        ):
            wire.subscribe(("a", options))
            if comes:
                self.assertTrue(wire.message().retain)
            self.assertSilent(wire)
        wire.unsubscribe("a")
        wire.subscribe(("a", 1 | IF_NEW))
        self.assertTrue(wire.message().retain)

    def test_retain_handling_of_a_resumed_session(self):
        """The subscription of a resumed session is not new."""
        self.connected("p").publish("a", "kept", retain=True)
        wire = self.subscribed("c", ("a", 1 | NEVER), clean=False, session_expiry=60)
        wire.leave()
        wire = self.connected("c", clean=False, session_expiry=60)
        wire.subscribe(("a", 1 | IF_NEW))
        self.assertSilent(wire)

    def test_identifiers(self):
        """B70: largest and smallest, replaced, taken away, of retained messages too, and kept for who is away.

        [MQTT5-3.8.4-3]
        """
        publisher = self.connected("p")
        publisher.publish("r", "kept", retain=True)
        wire = self.connected("c", clean=False, session_expiry=60)
        wire.subscribe("a", subscription_identifier=1)
        wire.subscribe("r", subscription_identifier=268_435_455)
        self.assertEqual(wire.message().properties, dict(subscription_identifier=[268_435_455]))
        publisher.publish("a")
        self.assertEqual(wire.message().properties, dict(subscription_identifier=[1]))
        wire.subscribe("a", subscription_identifier=200)
        publisher.publish("a")
        self.assertEqual(wire.message().properties, dict(subscription_identifier=[200]))
        wire.leave()
        publisher.publish("a", "away")
        wire = self.connected("c", clean=False, session_expiry=60)
        self.assertEqual(wire.message().properties, dict(subscription_identifier=[200]))
        wire.subscribe("a")
        publisher.publish("a")
        self.assertEqual(wire.message().properties, {})

    def test_identifiers_of_what_waits(self):
        """Those of the subscription that it came by, whatever has become of that since. [MQTT5-3.3.4-3]"""
        wire = self.connected("c", receive_maximum=1)
        wire.subscribe("a", subscription_identifier=1)
        publisher = self.connected("p")
        for number in range(3):
            publisher.publish("a", f"{number}")
        wire.subscribe("a", subscription_identifier=2)
        publisher.publish("a", "3")
        self.assertEqual([m.properties["subscription_identifier"] for m in wire.messages(4)], [[1], [1], [1], [2]])

    def test_one_identifier_of_two_subscriptions(self):
        """Is told for each of them that matches. [MQTT5-3.3.4-4]"""
        wire = self.connected("c")
        for name in ("a/#", "a/+"):
            wire.subscribe(name, subscription_identifier=5)
        publisher = self.connected("p")
        publisher.publish("a/b")
        publisher.publish("a", "end", 0)
        told = []
        while (found := wire.message()).payload != b"end":
            told += found.properties["subscription_identifier"]
        self.assertEqual(told, [5, 5])

    def test_overlapping(self):
        """B74: one copy with all identifiers or one copy each with its own; the highest QoS is there.

        [MQTT5-3.3.4-2], [MQTT5-3.3.4-3], [MQTT5-3.3.4-4]
        """
        wire = self.connected("c")
        wire.subscribe(("a/#", 0), subscription_identifier=1)
        wire.subscribe(("a/b", 1), subscription_identifier=2)
        wire.subscribe(("+/b", 2))
        self.connected("p").publish("a/b", "x", 1)
        found = [wire.message()]
        packet = wire.ping()
        while packet.kind == "PUBLISH":
            found.append(packet)
            packet = wire.packet()
        self.assertEqual(max(m.qos for m in found), 1)
        told = sorted(n for m in found for n in m.properties.get("subscription_identifier", []))
        self.assertEqual(told, [1, 2])
        self.assertIn(len(found), (1, 3))

    def test_several_filters(self):
        """A reason for each, in order, with the QoS that is granted; the identifier is of all.

        [MQTT5-3.8.4-5], [MQTT5-3.8.4-6], [MQTT5-3.8.4-7], [MQTT5-3.8.4-8], [MQTT5-3.9.3-1], [MQTT5-3.11.3-1]
        """
        wire = self.connected("c")
        reasons = wire.subscribe(("a", 0), ("b", 1), ("c", 2), ("d/#", 1), subscription_identifier=9)
        self.assertEqual(reasons, [0, 1, 2, 1])
        publisher = self.connected("p")
        for topic in "abc":
            publisher.publish(topic, "", 2)
        found = wire.messages(3)
        self.assertEqual({m.topic: m.qos for m in found}, {"a": 0, "b": 1, "c": 2})
        self.assertEqual({tuple(m.properties["subscription_identifier"]) for m in found}, {(9,)})
        self.assertEqual(wire.unsubscribe("b", "none", "d/#", "d/+"), [0, 0x11, 0, 0x11])

    def test_named_twice(self):
        """A filter that one SUBSCRIBE names twice: the later one replaces. [MQTT5-3.8.4-3], [MQTT5-3.8.4-5]"""
        publisher = self.connected("p")
        publisher.publish("a", "kept", retain=True)
        for options, copies in (((2, 1 | IF_NEW), 1), ((1 | NEVER, 1 | IF_NEW), 0), ((IF_NEW, 2 | NEVER), 1)):
            wire = self.connected("c")
            self.assertEqual(wire.subscribe(*(("a", one) for one in options)), [one & 3 for one in options])
            found = wire.messages(copies)
            self.assertEqual([(m.payload, m.retain) for m in found], [(b"kept", True)] * copies, options)
            self.assertSilent(wire)
            publisher.publish("a", "live", 2)
            self.assertEqual(wire.message().qos, options[1] & 3, options)
            self.assertSilent(wire)

    def test_retained_for_each_time_it_is_named(self):
        """As with one SUBSCRIBE after the other: retained messages come with each. [MQTT5-3.3.1-9], [MQTT5-3.8.4-5]"""
        self.connected("p").publish("a", "kept", retain=True)
        wire = self.connected("c")
        self.assertEqual(wire.subscribe(("a", 1), ("a", 2)), [1, 2])
        found, packet = [], wire.ping()
        while packet.kind == "PUBLISH":
            found.append((packet.payload, packet.retain))
            packet = wire.packet()
        self.assertEqual(found, [(b"kept", True)] * 2)

    def test_replacing_loses_nothing(self):
        """What waits behind a full window comes, once, though its subscription is replaced; RETAIN as it was asked for.

        [MQTT5-3.8.4-3], [MQTT5-3.8.4-4]
        """
        publisher = self.connected("p")
        publisher.publish("a", "kept", retain=True)
        wire = self.subscribed("c", ("a", 2 | NEVER), receive_maximum=1)
        for number in range(6):
            publisher.publish("a", f"{number}", 1 + number % 2)
        for options in (1 | NEVER, 2 | AS_PUBLISHED | IF_NEW, 2 | NEVER):
            self.assertEqual(wire.subscribe(("a", options)), [options & 3])
        self.assertEqual([m.payload for m in wire.messages(6)], [b"%d" % n for n in range(6)])
        self.assertSilent(wire)
        wire.subscribe(("a", 2))
        self.assertEqual(wire.message().payload, b"kept")
        self.assertSilent(wire)

    def test_by_paho(self):
        """The same with a client's names for it."""
        client = self.paho("c")
        self.assertEqual(client.subscribe("a", 1, identifier=7, noLocal=True, retainAsPublished=True), [1])
        client.publish("a", "mine")
        self.paho("p").publish("a", "another's", retain=True)
        found = client.next()
        self.assertEqual((found.payload, found.retain), (b"another's", True))
        self.assertEqual(found.properties.SubscriptionIdentifier, [7])
        self.assertEqual(client.unsubscribe("a"), [0])
        self.assertEqual(client.unsubscribe("a"), [0x11])

    def test_user_properties_of_requests(self):
        """Are taken everywhere."""
        wire = self.connected("c", user=[("a", "b")])
        self.assertEqual(wire.subscribe("a", user=[("a", "b"), ("a", "b")]), [1])
        self.assertEqual(wire.unsubscribe("a", user=[("a", "b")]), [0])
        wire.leave(0, user=[("a", "b")], reason_string="done")
