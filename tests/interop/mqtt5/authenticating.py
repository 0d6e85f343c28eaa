"""Users: name and password, and SCRAM-SHA-256 in AUTH packets (§4.12). The client's side of SCRAM is scramp's."""

import signal
import subprocess
import time

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from scramp import ScramClient

import wire as w
from broker import PATIENCE, Case, Target, vowmq_only
from common.users import lines

METHOD = "SCRAM-SHA-256"
PASSWORD = "correct horse, battery=staple ☃"
BAD_PASSWORD, NOT_AUTHORIZED, BAD_METHOD, PROTOCOL = 0x86, 0x87, 0x8C, 0x82


@vowmq_only("Mosquitto has its users elsewhere, and this suite starts it without")
class Authenticating(Case):
    @property
    def configuration(self):
        return lines(Target.binary, alice=PASSWORD, bob="bob's")

    def logs_in(self, version, client="c", **given):
        """The reason code of CONNACK."""
        wire = self.wire()
        wire.version = version
        wire.send(w.connect(client, version=version, **given))
        return wire.expect("CONNACK").reason

    def test_passwords(self):
        """Of both versions, right and wrong; who says nothing is not let in."""
        for version, wrong, nothing in ((4, 4, 5), (5, BAD_PASSWORD, NOT_AUTHORIZED)):
            for name, password in (("alice", PASSWORD), ("bob", "bob's"), ("alice", PASSWORD)):
                self.assertEqual(self.logs_in(version, user_name=name, password=password), 0)
            for name, password in (("alice", "bob's"), ("alice", ""), ("carol", PASSWORD), ("", "")):
                self.assertEqual(self.logs_in(version, user_name=name, password=password), wrong, name)
            self.assertEqual(self.logs_in(version, user_name="alice"), wrong)
            self.assertEqual(self.logs_in(version), nothing)

    def test_clients(self):
        """paho and mosquitto_pub give a password as they always do."""
        client = self.paho("p", user=("alice", PASSWORD))
        client.subscribe("t")
        command = ["mosquitto_pub", "-p", str(self.broker.port), "-t", "t", "-m", "m", "-q", "1", "-u", "bob", "-P"]
        subprocess.run([*command, "bob's"], check=True, capture_output=True, timeout=PATIENCE)
        self.assertEqual(client.next().payload, b"m")
        done = subprocess.run([*command, "wrong"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('user "bob" is not known, or the password is wrong', self.broker.said())

    def test_a_wrong_password_takes_nothing_away(self):
        """Neither the connection nor the session of the client whose identifier it names."""
        real = self.subscribed("c", "t", clean=False, session_expiry=60, user_name="alice", password=PASSWORD)
        self.assertEqual(self.logs_in(5, "c", user_name="alice", password="wrong"), BAD_PASSWORD)
        self.assertSilent(real)
        real.leave()
        self.assertEqual(self.logs_in(5, "c", user_name="alice", password="wrong"), BAD_PASSWORD)
        again = self.connected("c", clean=False, session_expiry=60, user_name="alice", password=PASSWORD)
        self.assertTrue(again.connack.session_present)

    def test_many_at_once(self):
        """A password is hashed slowly once; a hundred clients of one user do not wait for a hundred hashes."""
        wires = [self.wire() for _ in range(100)]
        for number, wire in enumerate(wires):
            wire.send(w.connect(f"c{number}", user_name="alice", password=PASSWORD))
        self.assertEqual({wire.expect("CONNACK").reason for wire in wires}, {0})

    def first_step(self, wire, scram, **given):
        """Begins with CONNECT. [MQTT5-4.12.0-2], [MQTT5-4.12.0-3], [MQTT5-4.12.0-5]"""
        data = scram.get_client_first().encode()
        wire.send(w.connect("c", authentication_method=METHOD, authentication_data=data, **given))
        self.take_step(wire, scram)

    def take_step(self, wire, scram):
        step = wire.expect("AUTH")
        self.assertEqual((step.reason, step.properties["authentication_method"]), (0x18, METHOD))
        scram.set_server_first(step.properties["authentication_data"].decode())

    def last_step(self, wire, scram):
        data = scram.get_client_final().encode()
        wire.send(w.auth(0x18, authentication_method=METHOD, authentication_data=data))

    def by_scram(self, name="alice", password=PASSWORD, **given):
        wire, scram = self.wire(), ScramClient([METHOD], name, password)
        self.first_step(wire, scram, **given)
        self.last_step(wire, scram)
        wire.connack = wire.expect("CONNACK")
        if wire.connack.reason == 0:
            self.assertEqual(wire.connack.properties["authentication_method"], METHOD)
            scram.set_server_final(wire.connack.properties["authentication_data"].decode())  # checks the signature
        return wire

    def test_scram(self):
        """Both ends prove that they know the password. [MQTT5-4.12.0-4], [MQTT5-4.12.0-5]"""
        wire = self.by_scram()
        self.assertEqual(wire.connack.reason, 0)
        self.assertSilent(wire)
        for name, password in (("alice", "wrong"), ("carol", PASSWORD)):
            wire = self.by_scram(name, password)
            self.assertEqual(wire.connack.reason, BAD_PASSWORD)
            self.assertIsNone(wire.packet())

    def test_scram_is_not_to_be_had_twice(self):
        """What one exchange ended with is worth nothing in another: the nonce is new."""
        scram = ScramClient([METHOD], "alice", PASSWORD)
        self.first_step(self.wire(), scram)
        final = scram.get_client_final().encode()
        wire = self.wire()
        data = b"n,,n=alice,r=abc"
        wire.send(w.connect("c", authentication_method=METHOD, authentication_data=data))
        wire.expect("AUTH")
        wire.send(w.auth(0x18, authentication_method=METHOD, authentication_data=final))
        self.assertEqual(wire.expect("CONNACK").reason, BAD_PASSWORD)

    def test_scram_again(self):
        """A client that is connected renews its proof, and gets its messages meanwhile. [MQTT5-4.12.1-1]"""
        wire, scram = self.by_scram(), ScramClient([METHOD], "alice", PASSWORD)
        wire.subscribe("t")
        data = scram.get_client_first().encode()
        wire.send(w.auth(0x19, authentication_method=METHOD, authentication_data=data))
        self.take_step(wire, scram)
        wire.send(w.publish("t", "between", qos=1, id=7))
        self.assertEqual({wire.packet().kind, wire.packet().kind}, {"PUBACK", "PUBLISH"})
        self.last_step(wire, scram)
        done = wire.expect("AUTH")
        self.assertEqual((done.reason, done.properties["authentication_method"]), (0, METHOD))
        scram.set_server_final(done.properties["authentication_data"].decode())
        self.assertSilent(wire)

    def test_scram_again_and_wrong(self):
        """Who cannot renew it, or is another user now, is closed. [MQTT5-4.12.1-2]"""
        for name, password in (("alice", "wrong"), ("bob", "bob's")):
            wire, scram = self.by_scram(), ScramClient([METHOD], name, password)
            data = scram.get_client_first().encode()
            wire.send(w.auth(0x19, authentication_method=METHOD, authentication_data=data))
            self.take_step(wire, scram)
            self.last_step(wire, scram)
            self.assertEnds(wire, NOT_AUTHORIZED)

    def test_other_methods(self):
        """Are not known; another one than in CONNECT is an error. [MQTT5-4.12.0-1], [MQTT5-4.12.1-1]"""
        for method in ("SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", ""):
            wire = self.wire()
            wire.send(w.connect("c", authentication_method=method, authentication_data=b"n,,n=alice,r=abc"))
            self.assertRefused(wire, BAD_METHOD)
        wire = self.by_scram()
        wire.send(w.auth(0x19, authentication_method="SCRAM-SHA-1", authentication_data=b"n,,n=alice,r=abc"))
        self.assertEnds(wire, PROTOCOL)

    def test_nothing_else_during_an_exchange(self):
        """Until CONNACK the client may send AUTH and DISCONNECT alone. [MQTT5-3.1.2-30]"""
        for packet in (w.frame("PINGREQ", b""), w.publish("t", "m"), w.connect("c")):
            wire = self.wire()
            self.first_step(wire, ScramClient([METHOD], "alice", PASSWORD))
            wire.send(packet)
            self.assertIsNone(wire.packet())
        self.connected("d", user_name="alice", password=PASSWORD)

    def test_what_is_no_scram(self):
        """Is refused, and nobody else suffers."""
        for data in (b"", b"\0", b"\xff" * 1000, b"n,,", b"n,,n=alice", b"p=tls-unique,,n=alice,r=abc", b"n,,n==,r=abc"):
            wire = self.wire()
            wire.send(w.connect("c", authentication_method=METHOD, authentication_data=data))
            self.assertRefused(wire, BAD_PASSWORD)
        self.connected("d", user_name="alice", password=PASSWORD)

    def test_other_users_after_a_reload(self):
        """Who is there stays; who comes is looked up anew."""
        old = self.connected("old", user_name="alice", password=PASSWORD)
        self.broker.change(lines(Target.binary, alice="another"))
        until = time.monotonic() + PATIENCE
        while self.logs_in(5, user_name="alice", password=PASSWORD) == 0:
            self.assertLess(time.monotonic(), until)
        self.assertEqual(self.logs_in(5, user_name="alice", password="another"), 0)
        self.assertEqual(self.logs_in(5, user_name="bob", password="bob's"), BAD_PASSWORD)
        self.assertSilent(old)


@vowmq_only("as above")
class BesideUsers(Case):
    @property
    def configuration(self):
        return "allow_anonymous = true\n" + lines(Target.binary, alice=PASSWORD)

    def test_anonymous(self):
        """Who says nothing is let in where that is allowed; a wrong password is wrong all the same."""
        self.connected("c")
        wire = self.wire()
        wire.send(w.connect("d", user_name="alice", password="wrong"))
        self.assertRefused(wire, BAD_PASSWORD)
