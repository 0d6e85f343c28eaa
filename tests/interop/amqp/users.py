"""Users: PLAIN and AMQPLAIN with names and passwords, by pika and by amqp-tools."""

import subprocess

import pamqp.commands as commands
import pika
from pika.exceptions import AuthenticationError, ProbableAuthenticationError

from broker import PATIENCE, Case, Target, vowmq_only
from common.users import lines
from connecting import Wire


@vowmq_only
class Users(Case):
    @property
    def configuration(self):
        return lines(Target.binary, alice="correct horse", guest="other")

    def connect(self, user, password):
        given = pika.PlainCredentials(user, password)
        parameters = pika.ConnectionParameters("127.0.0.1", self.broker.port, credentials=given)
        return pika.BlockingConnection(parameters)

    def test_pika(self):
        connection = self.connect("alice", "correct horse")
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        # The name that was proven is the one that user_id may be.
        channel.confirm_delivery()
        channel.basic_publish("", queue, b"m", pika.BasicProperties(user_id="alice"))
        self.assertEqual(channel.basic_get(queue, auto_ack=True)[2], b"m")
        connection.close()
        for user, password in (("alice", "wrong"), ("guest", "guest"), ("carol", "correct horse")):
            with self.assertRaises((AuthenticationError, ProbableAuthenticationError)):
                self.connect(user, password)
        self.assertIn("Login was refused", self.broker.said())

    def test_both_mechanisms(self):
        """AMQPLAIN as well; 403 says why."""
        login = b"\x05LOGINS\0\0\0\x05alice\x08PASSWORDS" + (13).to_bytes(4, "big") + b"correct horse"
        wrong = login.replace(b"horse", b"house")
        for mechanism, response, proven in (
            ("AMQPLAIN", login, True),
            ("AMQPLAIN", wrong, False),
            ("PLAIN", b"\0alice\0correct horse", True),
            ("PLAIN", b"\0alice\0", False),
        ):
            wire = Wire(self.broker.port, open=False)
            wire.raw(b"AMQP\0\0\x09\x01")
            wire.expect(commands.Connection.Start)
            wire.send(0, commands.Connection.StartOk({}, mechanism, response.decode(), "en_US"))
            if proven:
                wire.expect(commands.Connection.Tune)
            else:
                close = wire.expect(commands.Connection.Close)
                self.assertEqual(close.reply_code, 403)
                self.assertIn(f"mechanism {mechanism}", close.reply_text)

    def test_amqp_tools(self):
        url = f"amqp://alice:{{}}@127.0.0.1:{self.broker.port}"
        command = ["amqp-declare-queue", "-d", "-q", "tools", "-u"]
        subprocess.run([*command, url.format("correct%20horse")], check=True, capture_output=True, timeout=PATIENCE)
        done = subprocess.run([*command, url.format("wrong")], capture_output=True, timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)
