"""What a SIGKILL leaves, and what it takes. With pika."""

import time
import unittest

import pika

from broker import Case, Target


@unittest.skipIf(Target.rabbitmq, "only for vowmq")
class Durability(Case):
    def test_confirmed_survives_and_transient_does_not(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("durable", durable=True)
        channel.queue_declare("transient")
        channel.exchange_declare("e", "topic", durable=True)
        channel.exchange_declare("passing", "topic")
        channel.queue_bind("durable", "e", "kept.*")
        channel.queue_bind("durable", "passing", "kept.*")
        channel.queue_bind("transient", "e", "kept.*")
        for number in range(10):
            self.publish(channel, "kept.1", str(number), "e", delivery_mode=1 + number % 2)
        self.broker.restart()
        channel = self.channel(confirms=True)
        came = self.take(channel, "durable", 5)
        self.assertEqual([int(body) for _, _, body in came], [1, 3, 5, 7, 9])
        self.assertEqual({method.redelivered for method, _, _ in came}, {False})
        self.assertEmpty(channel, "durable")
        self.publish(channel, "kept.2", "still bound", "e", delivery_mode=2)
        self.assertEqual(self.bodies(channel, "durable", 1), ["still bound"])
        for name in ("passing", "e"):
            other = self.channel()
            if name == "e":
                other.exchange_declare(name, "topic", durable=True)
            else:
                text = f"no exchange '{name}'"
                self.refused(404, text, other, lambda: other.exchange_declare(name, passive=True))
        other = self.channel()
        self.refused(404, "no queue 'transient'", other, lambda: other.queue_declare("transient", passive=True))

    def test_only_what_was_delivered_is_redelivered(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True)
        for number in range(10):
            self.publish(channel, "q", str(number), delivery_mode=2)
        self.take(channel, "q", 4, ack=False)
        channel.basic_ack(2, multiple=True)
        time.sleep(0.1)  # a consumer's own acknowledgements are on disk a little later
        self.broker.restart()
        came = self.take(self.channel(), "q", 8)
        self.assertEqual([int(body) for _, _, body in came], list(range(2, 10)))
        # Those that were delivered say so; what was never near a consumer may say so only within a block of the horizon.
        self.assertEqual([method.redelivered for method, _, _ in came[:2]], [True, True])

    def test_quorum_queue_keeps_everything(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
        for mode in (1, 2):
            self.publish(channel, "q", str(mode), delivery_mode=mode)
        self.broker.restart()
        self.assertEqual(self.bodies(self.channel(), "q", 2), ["1", "2"])

    def test_exclusive_and_arguments_after_a_crash(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("mine", durable=True, exclusive=True)
        arguments = {"x-max-length": 2, "x-max-priority": 3}
        channel.queue_declare("bounded", durable=True, arguments=arguments)
        channel.queue_declare("auto", durable=True, auto_delete=True)
        self.publish(channel, "bounded", "low", delivery_mode=2)
        self.publish(channel, "bounded", "high", delivery_mode=2, priority=3)
        self.broker.restart()
        channel = self.channel(confirms=True)
        channel.queue_declare("mine", durable=True)
        channel.queue_declare("bounded", durable=True, arguments=arguments)
        self.assertEqual(self.bodies(channel, "bounded", 1), ["high"])
        other = self.channel()
        self.refused(406, "x-max-length", other, lambda: other.queue_declare("bounded", durable=True))
        _, tag = self.consume(channel, "auto")
        channel.basic_cancel(tag)
        self.refused(404, "no queue 'auto'", channel, lambda: channel.queue_declare("auto", passive=True))

    def test_deleted_stays_deleted(self):
        channel = self.channel(confirms=True)
        for queue in ("q", "purged"):
            channel.queue_declare(queue, durable=True)
            self.publish(channel, queue, delivery_mode=2)
        channel.queue_delete("q")
        channel.queue_purge("purged")
        channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
        self.broker.restart()
        channel = self.channel()
        channel.queue_declare("q", durable=True, arguments={"x-max-length": 5})
        self.assertEqual((self.count(channel, "q"), self.count(channel, "purged")), (0, 0))

    def test_transaction_is_all_or_nothing(self):
        channel = self.channel()
        for queue in ("a", "b"):
            channel.queue_declare(queue, durable=True)
        channel.tx_select()
        for number in range(50):
            self.publish(channel, "ab"[number % 2], str(number), delivery_mode=2)
        channel.tx_commit()
        self.publish(channel, "a", "never", delivery_mode=2)
        self.broker.restart()
        channel = self.channel()
        self.assertEqual([int(body) for body in self.bodies(channel, "a", 25)], list(range(0, 50, 2)))
        self.assertEqual([int(body) for body in self.bodies(channel, "b", 25)], list(range(1, 50, 2)))
        self.assertEmpty(channel, "a")

    def test_expiry_runs_on(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True)
        self.publish(channel, "q", "short", expiration="500", delivery_mode=2)
        self.publish(channel, "q", "long", expiration="60000", delivery_mode=2)
        self.broker.kill()
        time.sleep(0.6)
        self.broker.start()
        self.assertEqual(self.bodies(self.channel(), "q", 1), ["long"])

    def test_kill_in_the_middle_of_publishing(self):
        confirmed = []
        for round in range(3):
            channel = self.channel()
            channel.queue_declare("q", durable=True)
            told = []
            channel._impl.confirm_delivery(lambda frame: told.append(frame.method), callback=lambda _ok: None)
            first = round * 1000
            for number in range(300):
                properties = pika.BasicProperties(delivery_mode=2)
                channel._impl.basic_publish("", "q", str(first + number).encode(), properties)
            self.pump(channel, lambda: told and told[-1].delivery_tag > 20)
            self.broker.kill()
            reached = max(method.delivery_tag for method in told)
            confirmed.extend(range(first, first + reached))
            self.broker.start()
        channel = self.channel()
        found = []
        while (got := channel.basic_get("q", auto_ack=True))[0]:
            found.append(int(got[2]))
        self.assertEqual(found, sorted(set(found)))
        self.assertEqual(set(confirmed) - set(found), set())
