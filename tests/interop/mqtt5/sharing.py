"""Shared subscriptions."""

import time

import wire as w
from broker import Case, vowmq_only


class Sharing(Case):
    def member(self, name, *filters, **options):
        return self.subscribed(name, *(filters or [("$share/g/a", 2)]), **options)

    def drain(self, wire):
        """What has come, acknowledged."""
        found = []
        packet = wire.ping()
        while packet.kind != "PINGRESP":
            found.append(packet)
            if packet.qos == 1:
                wire.send(w.answer("PUBACK", packet.id))
            elif packet.qos == 2:
                wire.releasing.add(packet.id)
                wire.send(w.answer("PUBREC", packet.id))
            packet = wire.packet()
        return found

    def gather(self, wires, count):
        """So many messages of all of them, as they come; per member."""
        found = {name: [] for name in wires}
        until = time.monotonic() + 10
        while sum(map(len, found.values())) < count and time.monotonic() < until:
            for name, wire in wires.items():
                found[name] += self.drain(wire)
        return found

    def test_one_of_them_gets_it(self):
        """Each message once in a group, in each group, and to who subscribed by himself."""
        wires = {name: self.member(name) for name in ("1", "2", "3")}
        wires |= {"other": self.member("other", ("$share/h/a", 2)), "plain": self.member("plain", ("a", 2))}
        publisher = self.connected("p")
        for number in range(60):
            publisher.publish("a", f"{number}", number % 3)
        found = self.gather(wires, 180)
        everything = [b"%d" % n for n in range(60)]
        key = int
        of_group = sorted((m.payload for name in "123" for m in found[name]), key=key)
        self.assertEqual(of_group, everything)
        for name in ("other", "plain"):
            self.assertEqual(sorted((m.payload for m in found[name]), key=key), everything)
        for name in "123":
            self.assertGreater(len(found[name]), 5, "members take turns")

    def test_by_3_1_1_too(self):
        """Members of both versions share one group."""
        wires = {"4": self.member("4", ("$share/g/a/+", 1), version=4), "5": self.member("5", ("$share/g/a/+", 1))}
        publisher = self.connected("p", version=4)
        for number in range(20):
            publisher.publish(f"a/{number}", f"{number}")
        found = self.gather(wires, 20)
        self.assertEqual(sorted(int(m.payload) for name in "45" for m in found[name]), list(range(20)))
        self.assertTrue(found["4"] and found["5"])

    @vowmq_only("sends them")
    def test_no_retained_messages(self):
        """Whatever retain handling says, in both versions."""
        self.connected("p").publish("a", "kept", retain=True)
        for options in ("$share/g/a", 1), ("$share/g/a", 1 | 16), ("$share/h/#", 2):
            self.assertSilent(self.member("m", options))
        self.assertSilent(self.member("m", ("$share/g/a", 1), version=4))

    @vowmq_only("takes most of them")
    def test_wrong_filters(self):
        """B68: no name, a wildcard in it, no filter. [MQTT5-4.8.2-1], [MQTT5-4.8.2-2]"""
        for name in ("$share/g", "$share//t", "$share/+/t", "$share/#/t", "$share/a+b/t", "$share/g/", "$share/"):
            with self.subTest(name):
                wire = self.connected("c")
                wire.send(w.subscribe(1, name))
                found = wire.packet()
                self.assertTrue(found is None or found.kind in ("SUBACK", "DISCONNECT"), found)
                if found and found.kind == "SUBACK":
                    self.assertEqual(found.reasons, [0x8F])
        self.assertLives()

    def test_overlapping_groups(self):
        """B68: one for each subscription of a group that matches."""
        both = self.member("both", "$share/g/t", "$share/g/#", "$share/h/t")
        self.connected("p").publish("t", "x")
        self.assertEqual([m.payload for m in both.messages(3)], [b"x"] * 3)
        self.assertSilent(both)

    @vowmq_only("takes it")
    def test_no_local(self):
        """A protocol error. [MQTT5-3.8.3-4]"""
        wire = self.connected("c")
        wire.send(w.subscribe(1, ("$share/g/a", 1 | 4)))
        self.assertEnds(wire, 0x82)

    @vowmq_only("loses what a member had not acknowledged")
    def test_member_that_dies(self):
        """B65: QoS 1 that it has not acknowledged goes to another; nothing is lost."""
        dying, living = self.member("dying", "$share/g/a"), self.member("living", "$share/g/a")
        publisher = self.connected("p")
        for number in range(20):
            publisher.publish("a", f"{number}")
        got = [m.payload for m in self.drain(living)]
        self.assertLess(len(got), 20)
        dying.close()
        got += [m.payload for m in self.gather({"living": living}, 20 - len(got))["living"]]
        self.assertEqual(sorted(map(int, got)), list(range(20)))

    @vowmq_only("loses what a member had not acknowledged")
    def test_member_with_a_session_that_goes(self):
        """B65: the same where its session stays: QoS 1 does not wait for it."""
        away, living = self.member("away", "$share/g/a", session_expiry=60), self.member("living", "$share/g/a")
        publisher = self.connected("p")
        for number in range(10):
            publisher.publish("a", f"{number}")
        got = [m.payload for m in self.drain(living)]
        away.leave()
        for number in range(10, 20):
            publisher.publish("a", f"{number}")
        got += [m.payload for m in self.gather({"living": living}, 20 - len(got))["living"]]
        self.assertEqual(sorted(map(int, got)), list(range(20)))
        self.assertSilent(self.connected("away", clean=False, session_expiry=60))

    def test_qos_2_stays_with_its_member(self):
        """What was begun is completed to it when it is back, under its identifier, and goes to no other. [MQTT5-4.8.2-4]"""
        first = self.member("first", session_expiry=60)
        publisher = self.connected("p")
        publisher.publish("a", "begun", 2)
        publisher.publish("a", "received", 2)
        begun, received = first.expect("PUBLISH"), first.expect("PUBLISH")
        first.send(w.answer("PUBREC", received.id))
        first.expect("PUBREL")
        second = self.member("second")
        first.close()
        time.sleep(0.2)
        self.assertSilent(second)
        first = self.connected("first", clean=False, session_expiry=60)
        found = sorted([first.packet(), first.packet()], key=lambda m: m.kind)
        self.assertEqual([m.kind for m in found], ["PUBLISH", "PUBREL"])
        self.assertEqual((found[0].id, found[0].dup, found[0].payload), (begun.id, True, b"begun"))
        self.assertEqual(found[1].id, received.id)

    def test_qos_2_ends_with_its_session(self):
        """And with the session it is gone. [MQTT5-4.8.2-5]"""
        first = self.member("first", session_expiry=0)
        self.connected("p").publish("a", "begun", 2)
        first.expect("PUBLISH")
        second = self.member("second")
        first.close()
        time.sleep(0.3)
        self.assertSilent(second)

    def test_failure_goes_to_no_other(self):
        """A PUBACK or PUBREC of 0x80 and above discards the message. [MQTT5-4.8.2-6]"""
        first = self.member("first")
        publisher = self.connected("p")
        publisher.publish("a", "1", 1)
        publisher.publish("a", "2", 2)
        one, two = first.expect("PUBLISH"), first.expect("PUBLISH")
        second = self.member("second")
        first.send(w.answer("PUBACK", one.id, 0x80), w.answer("PUBREC", two.id, 0x97))
        self.assertSilent(first)
        first.close()
        time.sleep(0.2)
        self.assertSilent(second)

    def test_granted_qos(self):
        """Each member at its own. [MQTT5-4.8.2-3]"""
        wires = {"0": self.member("0", ("$share/g/a", 0)), "2": self.member("2", ("$share/g/a", 2))}
        publisher = self.connected("p")
        for number in range(10):
            publisher.publish("a", f"{number}", 2)
        found = self.gather(wires, 10)
        self.assertEqual({m.qos for m in found["0"]}, {0})
        self.assertEqual({m.qos for m in found["2"]}, {2})

    def test_identifiers(self):
        """Of the member's subscription; one that matches twice gets a copy for each with its own. [MQTT5-3.3.4-5]"""
        wire = self.connected("c")
        wire.subscribe("$share/g/a", subscription_identifier=5)
        wire.subscribe("a", subscription_identifier=6)
        self.connected("p").publish("a", "x")
        found = sorted(m.properties["subscription_identifier"] for m in wire.messages(2))
        self.assertEqual(found, [[5], [6]])

    def test_leaving(self):
        """Who has unsubscribed gets nothing more; the others do."""
        first, second = self.member("first"), self.member("second")
        self.assertEqual(first.unsubscribe("$share/g/a"), [0])
        self.assertEqual(first.unsubscribe("$share/g/a"), [0x11])
        publisher = self.connected("p")
        for number in range(6):
            publisher.publish("a", f"{number}")
        self.assertEqual(len(self.gather({"second": second}, 6)["second"]), 6)
        self.assertSilent(first)

    def test_backlog_of_the_group(self):
        """While no member is there the group keeps it, over a kill too; then they share it."""
        for name in ("1", "2"):
            self.member(name, "$share/g/a", clean=False, session_expiry=60).leave()
        publisher = self.connected("p")
        for number in range(40):
            publisher.publish("a", f"{number}")
        self.broker.restart()
        wires = {
            name: self.connected(name, clean=False, session_expiry=60, receive_maximum=5) for name in ("1", "2")
        }
        found = self.gather(wires, 40)
        self.assertEqual(sorted(int(m.payload) for some in found.values() for m in some), list(range(40)))

    @vowmq_only("keeps for a full member what another could take")
    def test_free_room_counts(self):
        """A member that acknowledges nothing holds its window, not the group."""
        stuck = self.member("stuck", "$share/g/a", receive_maximum=2)
        living = self.member("living", "$share/g/a")
        publisher = self.connected("p")
        for number in range(30):
            publisher.publish("a", f"{number}")
        self.assertEqual(len(self.gather({"living": living}, 28)["living"]), 28)
        self.assertEqual(len([stuck.expect("PUBLISH") for _ in range(2)]), 2)
        self.assertSilent(stuck)
