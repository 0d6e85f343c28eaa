"""Faults that users of other brokers reported, each by its number in the collection of public reports, and what is right."""

import hashlib
import os
import time

import pamqp.commands as commands
import pamqp.frame
import pamqp.header
from pamqp.body import ContentBody

from broker import vowmq_only
from connecting import WireCase, content

LONG = "n" * 255


class PublicReports(WireCase):
    def test_b18_words_of_topics(self):
        channel = self.channel(confirms=True)
        for queue, key in (("all below", "sport.#"), ("two words", "*.*"), ("empty first", ".*"), ("one", "*")):
            channel.queue_declare(queue)
            channel.queue_bind(queue, "amq.topic", key)
        keys = ["sport", "sport.", "sport.x", ".finance", "Sport", "sport.x.y"]
        for key in keys:
            self.publish(channel, key, key, "amq.topic")
        self.assertEqual(self.bodies(channel, "all below", 4), ["sport", "sport.", "sport.x", "sport.x.y"])
        self.assertEqual(self.bodies(channel, "two words", 3), ["sport.", "sport.x", ".finance"])
        self.assertEqual(self.bodies(channel, "empty first", 1), [".finance"])
        self.assertEqual(self.bodies(channel, "one", 2), ["sport", "Sport"])

    def test_b93_heartbeat_on_a_channel(self):
        for frame in (b"\x08\0\1\0\0\0\0\xce", b"\x09\0\0\0\0\0\0\xce", b"\x08\0\0\0\0\0\0\xcd"):
            wire = self.wire().opened()
            wire.raw(frame)
            self.assertCloses(wire, 501, 503, 505)

    @vowmq_only
    def test_b95_method_in_the_middle_of_content(self):
        publish = commands.Basic.Publish(routing_key="q")
        body = ContentBody(b"ab")
        header = pamqp.frame.marshal(content(b"ab"), 1)
        other_class = header[:7] + b"\0\x32" + header[9:]
        for frames in (
            [publish, publish],
            [publish, commands.Queue.Declare(queue="q")],
            [publish, content(b"ab"), publish],
            [publish, content(b"ab"), ContentBody(b"a"), commands.Queue.Declare(queue="q", passive=True)],
            [publish, body],
            [content(b"ab")],
            [body],
            [publish, other_class],
            [publish, content(b"ab"), content(b"ab")],
            [publish, content(b"ab"), ContentBody(b"abc")],
        ):
            wire = self.wire().opened()
            wire.send(1, commands.Queue.Declare(queue="q"))
            wire.expect(commands.Queue.DeclareOk)
            wire.raw(b"".join(f if isinstance(f, bytes) else pamqp.frame.marshal(f, 1) for f in frames))
            with self.subTest(frames=[str(f) for f in frames]):
                self.assertCloses(wire, 505, 501)
        self.assertEmpty(self.channel(), "q")

    def test_b97_frames_beyond_what_was_agreed(self):
        wire = self.wire(frame_max=4096).opened()
        wire.send(1, commands.Basic.Publish(), content(b"x" * 9000), ContentBody(b"x" * 9000))
        self.assertCloses(wire, 501)
        wire = self.wire().opened()
        wire.send(1, commands.Basic.Publish(), content(b"", headers={"much": "x" * 200_000}))
        self.assertCloses(wire, 501)

    @vowmq_only
    def test_b97_headers_that_grow_beyond_a_frame(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("dead")
        for number in range(30):
            to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"q{number + 1}" if number < 29 else "dead"}
            channel.queue_declare(f"q{number}", arguments={"x-message-ttl": 1, "x-queue-mode": "default"} | to)
        self.publish(channel, "q0", headers={"padding": "p" * 3000})
        self.until(lambda: self.count(channel, "dead") == 1, "it has gone through all")
        wire = self.wire(frame_max=4096).opened()
        wire.send(1, commands.Basic.Get(queue="dead", no_ack=True))
        wire.expect(commands.Basic.GetOk)
        header = wire.expect(pamqp.header.ContentHeader)
        self.assertLessEqual(len(wire.last), 4096)
        self.assertEqual(header.properties.headers["padding"], "p" * 3000)

    def test_b99_names_of_255_bytes(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare(LONG, "direct", durable=True)
        channel.queue_declare(LONG, durable=True)
        channel.queue_bind(LONG, LONG, LONG)
        got, _ = self.consume(channel, LONG, consumer_tag=LONG)
        self.publish(channel, LONG, exchange=LONG, delivery_mode=2)
        self.pump(channel, lambda: got)
        method = got[0][0]
        self.assertEqual((method.exchange, method.routing_key, method.consumer_tag), (LONG, LONG, LONG))

    def test_b101_channels_opened_twice_or_never(self):
        wire = self.wire().opened()
        wire.send(1, commands.Channel.Open())
        self.assertCloses(wire, 504)
        wire = self.wire().opened()
        wire.send(2, commands.Queue.Declare(queue="q"))
        self.assertCloses(wire, 504)
        wire = self.wire().opened()
        wire.send(2, commands.Basic.Ack(1))
        self.assertCloses(wire, 504)
        wire = self.wire().opened()
        wire.send(1, commands.Queue.Declare(queue="none", passive=True), commands.Queue.Declare(queue="made in vain"))
        wire.send(1, commands.Basic.Publish(routing_key="q"), content(b"ab"), ContentBody(b"ab"))
        wire.expect(commands.Channel.Close)
        wire.send(1, commands.Channel.CloseOk())
        wire.send(1, commands.Channel.Open(), commands.Queue.Declare(queue="made in vain", passive=True))
        wire.expect(commands.Channel.OpenOk)
        self.assertEqual(wire.expect(commands.Channel.Close).reply_code, 404)

    def test_b105_tags_that_are_unknown(self):
        connection = self.connect()
        first, second = connection.channel(), connection.channel()
        first.queue_declare("q")
        self.publish(first, "q")
        self.take(first, "q", 1, ack=False)
        self.refused(406, "unknown delivery tag 1", second, lambda: second.basic_ack(1))
        first.basic_ack(1)
        self.refused(406, "unknown delivery tag 1", first, lambda: first.basic_ack(1))
        third = connection.channel()
        self.publish(third, "q", "back")
        self.take(third, "q", 1, ack=False)
        self.refused(406, "unknown delivery tag 99", third, lambda: third.basic_ack(99))
        method, _, _ = self.take(self.channel(), "q", 1)[0]
        self.assertTrue(method.redelivered)

    def test_b107_order_of_what_comes_back(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True)
        for number in range(1, 11):
            self.publish(channel, "q", str(number), delivery_mode=2)
        channel = self.channel()
        channel.basic_qos(prefetch_count=3)
        got, _ = self.consume(channel, "q")
        self.pump(channel, lambda: len(got) == 3)
        channel.close()
        channel = channel.connection.channel()
        got, _ = self.consume(channel, "q")
        self.pump(channel, lambda: len(got) == 10)
        self.assertEqual([int(body) for _, _, body in got], list(range(1, 11)))
        self.assertEqual([m.redelivered for m, _, _ in got], [True] * 3 + [False] * 7)
        channel.basic_nack(got[1][0].delivery_tag)
        self.pump(channel, lambda: len(got) == 11)
        self.assertEqual((got[10][2], got[10][0].redelivered), (b"2", True))

    def test_b111_requeue_and_cancel_at_once(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q")
        for number in range(5):
            self.publish(channel, "q", str(number))
        wire = self.wire().opened()
        wire.send(1, commands.Basic.Qos(prefetch_count=2))
        wire.expect(commands.Basic.QosOk)
        for _ in range(300):
            wire.send(1, commands.Basic.Consume(queue="q", consumer_tag="same"))
            tags = []
            while len(tags) < 2:
                frame = wire.next()[1]
                tags += [frame.delivery_tag] if isinstance(frame, commands.Basic.Deliver) else []
            last = [commands.Basic.Nack(tag, False, True) for tag in tags]
            wire.send(1, *last, commands.Basic.Cancel(consumer_tag="same"))
            while not isinstance(frame := wire.next()[1], commands.Basic.CancelOk):
                pass
            # What was delivered between the two is given back by its tag.
            wire.send(1, commands.Basic.Recover(True))
            while not isinstance(wire.next()[1], commands.Basic.RecoverOk):
                pass
        self.assertEqual(self.bodies(channel, "q", 5), list("01234"))

    def test_b113_who_does_not_understand_cancel_is_not_told(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q")
        self.publish(channel, "q")
        for capabilities, told in (({}, False), ({"consumer_cancel_notify": True}, True)):
            channel.queue_declare("q")
            wire = self.wire(capabilities=capabilities).opened()
            self.publish(channel, "q", "x")
            wire.send(1, commands.Basic.Consume(queue="q", consumer_tag="c"))
            wire.expect(commands.Basic.ConsumeOk)
            wire.expect(commands.Basic.Deliver)
            channel.queue_delete("q")
            wire.send(1, commands.Basic.Ack(1), commands.Basic.Qos(prefetch_count=1))
            kinds = []
            while commands.Basic.QosOk not in kinds:
                kinds.append(type(wire.next()[1]))
            self.assertEqual(commands.Basic.Cancel in kinds, told)
            self.assertNotIn(commands.Channel.Close, kinds)

    def test_b117_an_argument_that_is_the_default(self):
        for first, second in (({}, {"x-queue-type": "classic"}), ({"x-queue-type": "classic"}, {})):
            channel = self.channel()
            channel.queue_declare("q", durable=True, arguments=first)
            channel.queue_declare("q", durable=True, arguments=second)
            channel.queue_delete("q")

    def test_b119_if_unused_and_if_empty(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("e", "fanout")
        channel.queue_declare("q")
        channel.queue_bind("q", "e")
        self.refused(406, "exchange 'e' in vhost '/' in use", channel, lambda: channel.exchange_delete("e", if_unused=True))
        channel = self.channel(confirms=True)
        channel.exchange_declare("e", "fanout", passive=True)
        _, tag = self.consume(channel, "q")
        other = self.channel()
        self.refused(406, "queue 'q' in vhost '/' in use", other, lambda: other.queue_delete("q", if_unused=True))
        channel.basic_cancel(tag)
        self.publish(channel, "q")
        other = self.channel()
        self.refused(406, "queue 'q' in vhost '/' not empty", other, lambda: other.queue_delete("q", if_empty=True))
        channel.exchange_delete("e")
        self.assertEqual(channel.queue_delete("q", if_unused=True).method.message_count, 1)

    @vowmq_only
    def test_b119_if_empty_with_messages_that_are_out(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q")
        self.publish(channel, "q")
        self.take(channel, "q", 1, ack=False)
        other = self.channel()
        self.refused(406, "queue 'q' in vhost '/' not empty", other, lambda: other.queue_delete("q", if_empty=True))

    def test_b125_empty_keys_of_two_exchanges(self):
        channel = self.channel(confirms=True)
        for name in ("one", "two"):
            channel.exchange_declare(name, "topic")
            channel.queue_declare(name)
            channel.queue_bind(name, name, "")
        self.publish(channel, "", "1", "one")
        self.assertEqual(self.bodies(channel, "one", 1), ["1"])
        self.assertEmpty(channel, "two")
        expected = {"#": 7, "a.#": 4, "#.a": 2, "*.#": 6, "a..b": 1, "#.#": 7, "a.*.b": 2}
        for key in expected:
            channel.queue_declare(key)
            channel.queue_bind(key, "amq.topic", key)
        for key in ("", "a", "a.b", "b.a", "a..b", "a.x.b", "b.b"):
            self.publish(channel, key, key, "amq.topic")
        self.assertEqual({key: self.count(channel, key) for key in expected}, expected)

    def test_b127_circle_with_a_rejection(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("dlx", "direct")
        channel.exchange_declare("back", "direct")
        channel.queue_declare("main", arguments={"x-dead-letter-exchange": "dlx"})
        channel.queue_declare("retry", arguments={"x-message-ttl": 100, "x-dead-letter-exchange": "back"})
        for queue, exchange in (("main", "back"), ("retry", "dlx")):
            channel.queue_bind(queue, exchange, "k")
        self.publish(channel, "k", "again", "back")
        for _ in range(4):
            method, _, body = self.take(channel, "main", 1, ack=False)[0]
            self.assertEqual(body, b"again")
            channel.basic_reject(method.delivery_tag, requeue=False)

    def test_b129_deaths_by_queue_and_reason_newest_first(self):
        channel = self.channel(confirms=True)
        for queue, to in (("a", "b"), ("b", "a")):
            channel.queue_declare(queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to})
        self.publish(channel, "a")
        for hop in range(60):
            method, properties, _ = self.take(channel, "ab"[hop % 2], 1, ack=False)[0]
            channel.basic_nack(method.delivery_tag, requeue=False)
        _, properties, _ = self.take(channel, "a", 1)[0]
        deaths = [(death["queue"], death["reason"], death["count"]) for death in properties.headers["x-death"]]
        self.assertEqual(deaths, [("b", "rejected", 30), ("a", "rejected", 30)])
        self.assertEqual(properties.headers["x-first-death-queue"], "a")
        # The flat ones can be matched by a headers exchange.
        channel.queue_declare("matched")
        channel.queue_bind("matched", "amq.headers", "", {"x-match": "all-with-x", "x-first-death-queue": "a"})
        channel.basic_publish("amq.headers", "", b"", properties)
        self.take(channel, "matched", 1)

    @vowmq_only
    def test_b133_expired_while_the_broker_was_away(self):
        channel = self.channel(confirms=True)
        channel.exchange_declare("dlx", "fanout", durable=True)
        channel.queue_declare("dlq", durable=True)
        channel.queue_bind("dlq", "dlx")
        channel.queue_declare("a", durable=True, arguments={"x-message-ttl": 200, "x-dead-letter-exchange": "dlx"})
        for number in range(20):
            self.publish(channel, "a", str(number), delivery_mode=2)
            self.assertLessEqual(self.count(channel, "a"), 20)
        self.broker.kill()
        time.sleep(0.4)
        self.broker.start()
        self.assertEqual(sorted(map(int, self.bodies(self.channel(), "dlq", 20))), list(range(20)))

    def test_b135_priorities_at_their_edges(self):
        for most in (256, -1, "5"):
            channel = self.channel()
            declare = lambda: channel.queue_declare("q", arguments={"x-max-priority": most})
            self.refused(406, "x-max-priority", channel, declare)
        for most in (0, 1, 255):
            channel = self.channel(confirms=True)
            channel.queue_declare("q", arguments={"x-max-priority": most})
            for number, priority in enumerate((0, 255, None, 1, 254)):
                self.publish(channel, "q", str(number), priority=priority)
            order = {0: "01234", 1: "13402", 255: "14302"}[most]
            self.assertEqual("".join(self.bodies(channel, "q", 5)), order, f"at most {most}")
            self.publish(channel, "q", "purged", priority=1)
            channel.queue_purge("q")
            self.publish(channel, "q", "after")
            self.assertEqual(self.bodies(channel, "q", 1), ["after"])
            channel.queue_delete("q")

    def test_b137_only_what_is_ready_counts(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True, arguments={"x-max-length": 10})
        for number in range(5):
            self.publish(channel, "q", str(number), delivery_mode=2)
        self.take(channel, "q", 5, ack=False)
        for number in range(5, 25):
            self.publish(channel, "q", str(number), delivery_mode=2)
        self.assertEqual(self.count(channel, "q"), 10)
        channel.basic_nack(5, multiple=True, requeue=True)
        # Those that came back are the oldest.
        self.assertEqual([int(body) for body in self.bodies(channel, "q", 10)], list(range(15, 25)))
        self.assertEmpty(channel, "q")

    def test_b139_one_body_to_several_queues(self):
        channel = self.channel(confirms=True, frame_max=4096)
        queues = ["fast", "slow", "last"]
        for queue in queues:
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "amq.fanout")
        body = os.urandom(5_000_000)
        digest = hashlib.sha256(body).digest()
        for _ in range(2):
            self.publish(channel, "", body, "amq.fanout", delivery_mode=2)
        for _ in range(2):
            for queue in queues:
                self.assertEqual(hashlib.sha256(self.take(channel, queue, 1)[0][2]).digest(), digest, queue)
            if hasattr(self.broker, "kill"):
                time.sleep(0.1)
                self.broker.restart()
                channel = self.channel(confirms=True, frame_max=4096)


@vowmq_only
class WhileHeld(WireCase):
    """Free space is asked to be more than any disk has: publishers are held."""

    settings = ("limits.free_bytes=1000000 GiB",)

    def test_b103_close_while_publishing_is_held(self):
        for deed in ("channel", "connection", "declare"):
            wire = self.wire(capabilities={"connection.blocked": True}).opened()
            wire.send(1, commands.Basic.Publish(routing_key="q"), content(b"ab"), ContentBody(b"ab"))
            answer = {
                "channel": (1, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk),
                "connection": (0, commands.Connection.Close(200, "", 0, 0), commands.Connection.CloseOk),
                "declare": (2, commands.Channel.Open(), commands.Channel.OpenOk),
            }[deed]
            wire.send(*answer[:2])
            blocked = wire.blocked
            with self.subTest(deed=deed):
                while not isinstance(frame := wire.next()[1], answer[2]):
                    blocked |= isinstance(frame, commands.Connection.Blocked)
                    self.assertIsInstance(frame, commands.Connection.Blocked)
                self.assertTrue(blocked)
