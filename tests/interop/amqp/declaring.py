"""Exchanges, queues and bindings: declared, compared, refused, deleted. With pika."""

import pika

from broker import Case, vowmq_only


class Declaring(Case):
    def test_passive(self):
        channel = self.channel()
        channel.queue_declare("q")
        channel.exchange_declare("e", "topic")
        channel.confirm_delivery()
        self.publish(channel, "q")
        self.consume(self.channel(), "q")
        ok = self.channel().queue_declare("q", passive=True, durable=True, arguments={"x-anything": 1}).method
        self.assertEqual((ok.queue, ok.consumer_count), ("q", 1))
        channel.exchange_declare("e", "direct", passive=True, durable=True)
        self.refused(404, "no queue 'none' in vhost '/'", channel, lambda: channel.queue_declare("none", passive=True))
        channel = self.channel()
        text = "no exchange 'none' in vhost '/'"
        self.refused(404, text, channel, lambda: channel.exchange_declare("none", "direct", passive=True))

    def test_queue_redeclared_otherwise(self):
        arguments = {"x-message-ttl": 60000, "x-max-length": 10}
        self.channel().queue_declare("q", durable=True, arguments=arguments)
        self.channel().queue_declare("q", durable=True, arguments=arguments)
        inequivalent = lambda what, name: f"inequivalent arg '{what}' for queue 'q' in vhost '/': {name}"
        for text, declared in (
            (inequivalent("durable", "received 'false' but current is 'true'"), dict(arguments=arguments)),
            (
                inequivalent("auto_delete", "received 'true' but current is 'false'"),
                dict(durable=True, auto_delete=True, arguments=arguments),
            ),
            (
                inequivalent("x-message-ttl", "received '50000' but current is '60000'"),
                dict(durable=True, arguments=arguments | {"x-message-ttl": 50000}),
            ),
            (
                inequivalent("x-max-length", "received none but current is the value '10' of type 'signedint'"),
                dict(durable=True, arguments={"x-message-ttl": 60000}),
            ),
            (
                inequivalent("x-max-priority", "received the value '5' of type 'signedint' but current is none"),
                dict(durable=True, arguments=arguments | {"x-max-priority": 5}),
            ),
            (
                inequivalent("x-dead-letter-exchange", "received the value 'dlx' of type 'longstr' but current is none"),
                dict(durable=True, arguments=arguments | {"x-dead-letter-exchange": "dlx"}),
            ),
        ):
            channel = self.channel()
            self.refused(406, text, channel, lambda: channel.queue_declare("q", **declared))

    def test_exclusive_declared_otherwise(self):
        channel = self.channel()
        channel.queue_declare("q", durable=True)
        text = "cannot obtain exclusive access to locked queue 'q' in vhost '/'"
        self.refused(405, text, channel, lambda: channel.queue_declare("q", durable=True, exclusive=True))
        channel = self.channel()
        for durable in (True, False, True):
            channel.queue_declare("mine", durable=durable, exclusive=True)

    def test_exchange_redeclared_otherwise(self):
        self.channel().exchange_declare("e", "direct", durable=True)
        self.channel().exchange_declare("e", "direct", durable=True)
        text = "inequivalent arg '{}' for exchange 'e' in vhost '/': received '{}' but current is '{}'".format
        for expected, declared in (
            (text("type", "fanout", "direct"), dict(exchange_type="fanout", durable=True)),
            (text("durable", "false", "true"), dict(durable=False)),
            (text("auto_delete", "true", "false"), dict(durable=True, auto_delete=True)),
            (text("internal", "true", "false"), dict(durable=True, internal=True)),
        ):
            channel = self.channel()
            self.refused(406, expected, channel, lambda: channel.exchange_declare("e", **declared))
        channel = self.channel()
        wrong = "inequivalent arg 'alternate-exchange' for exchange 'e' in vhost '/': received the value 'x' of type 'longstr' but current is none"
        alternate = {"alternate-exchange": "x"}
        self.refused(
            406, wrong, channel, lambda: channel.exchange_declare("e", "direct", durable=True, arguments=alternate)
        )

    def test_an_integer_of_another_size_is_the_same(self):
        self.channel().queue_declare("q", arguments={"x-max-length": 10})
        channel = self.channel()
        channel.queue_declare("q", arguments={"x-max-length": pika.compat.long(10)})

    def test_reserved_names(self):
        for text, deed in (
            ("queue name 'amq.mine' contains reserved prefix 'amq.*'", lambda c: c.queue_declare("amq.mine")),
            ("exchange name 'amq.mine' contains reserved prefix 'amq.*'", lambda c: c.exchange_declare("amq.mine")),
            ("operation not permitted on the default exchange", lambda c: c.queue_bind("q", "", "k")),
            ("operation not permitted on the default exchange", lambda c: c.queue_unbind("q", "", "k")),
            ("operation not permitted on the default exchange", lambda c: c.exchange_bind("amq.fanout", "")),
            ("operation not permitted on the default exchange", lambda c: c.exchange_bind("", "amq.fanout")),
            ("operation not permitted on the default exchange", lambda c: c.exchange_delete("")),
            ("operation not permitted on the default exchange", lambda c: c.exchange_declare("", "direct")),
            ("deletion of system exchange 'amq.topic' in vhost '/' not allowed", lambda c: c.exchange_delete("amq.topic")),
        ):
            channel = self.channel()
            channel.queue_declare("q")
            self.refused(403, text, channel, lambda: deed(channel))

    def test_predeclared_exchanges(self):
        channel = self.channel()
        for name, kind in (
            ("amq.direct", "direct"),
            ("amq.fanout", "fanout"),
            ("amq.topic", "topic"),
            ("amq.headers", "headers"),
            ("amq.match", "headers"),
        ):
            channel.exchange_declare(name, kind, durable=True)
        self.refused(406, "inequivalent arg 'type'", channel, lambda: channel.exchange_declare("amq.direct", "fanout", durable=True))

    def test_unknown_exchange_type(self):
        channel = self.channel()
        declare = lambda: channel.exchange_declare("e", "no-such-type")
        self.closed(503, "unknown exchange type 'no-such-type'", channel, declare)

    def test_arguments_that_are_wrong(self):
        for name, value in (
            ("x-message-ttl", -1),
            ("x-message-ttl", "100"),
            ("x-expires", 0),
            ("x-expires", "1"),
            ("x-max-length", -1),
            ("x-max-length", "many"),
            ("x-max-length-bytes", -1),
            ("x-max-priority", 256),
            ("x-max-priority", -1),
            ("x-overflow", "explode"),
            ("x-dead-letter-exchange", 7),
            ("x-single-active-consumer", "yes"),
            ("x-queue-type", "none"),
        ):
            channel = self.channel()
            with self.subTest(name=name, value=value):
                self.refused(406, name, channel, lambda: channel.queue_declare("q", arguments={name: value}))
        channel = self.channel()
        alone = {"x-dead-letter-routing-key": "k"}
        self.refused(406, "x-dead-letter", channel, lambda: channel.queue_declare("q", arguments=alone))

    @vowmq_only
    def test_unknown_arguments_are_refused(self):
        for name, value in (("x-what-is-this", 1), ("x-queue-type", "stream")):
            channel = self.channel()
            self.refused(406, name, channel, lambda: channel.queue_declare("q", durable=True, arguments={name: value}))

    def test_queue_types(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("classic", durable=True, arguments={"x-queue-type": "classic", "x-queue-mode": "lazy"})
        for queue in ("quorum", "classic"):
            self.publish(channel, queue)
            self.assertEqual(self.bodies(channel, queue, 1), ["x"])
        other = self.channel()
        for flags in (dict(durable=False), dict(durable=True, exclusive=True), dict(durable=True, auto_delete=True)):
            channel = self.channel()
            kind = {"x-queue-type": "quorum"}
            self.refused(406, "", channel, lambda: channel.queue_declare("bad", arguments=kind, **flags))
        self.refused(404, "bad", other, lambda: other.queue_declare("bad", passive=True))

    def test_purge_and_delete_count(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True)
        for number in range(5):
            self.publish(channel, "q", delivery_mode=1 + number % 2)
        self.take(channel, "q", 2, ack=False)
        self.assertEqual(channel.queue_purge("q").method.message_count, 3)
        self.assertEqual(self.count(channel, "q"), 0)
        channel.basic_recover(requeue=True)
        self.assertEqual(self.count(channel, "q"), 2)
        self.assertEqual(channel.queue_delete("q").method.message_count, 2)
        self.assertEqual(channel.queue_delete("q").method.message_count, 0)
        self.refused(404, "no queue 'q'", channel, lambda: channel.queue_purge("q"))

    def test_auto_delete(self):
        channel, other = self.channel(), self.channel()
        channel.queue_declare("q", auto_delete=True)
        _, first = self.consume(channel, "q")
        _, second = self.consume(other, "q")
        channel.basic_cancel(first)
        channel.queue_declare("q", passive=True)
        other.connection.close()
        gone = self.channel()
        self.refused(404, "no queue 'q'", gone, lambda: gone.queue_declare("q", passive=True))
        channel.queue_declare("unused", auto_delete=True)
        channel.connection.close()
        self.channel().queue_declare("unused", passive=True)

    def test_auto_delete_exchange(self):
        channel = self.channel()
        channel.exchange_declare("e", "direct", auto_delete=True)
        channel.exchange_declare("e2", "fanout", auto_delete=True)
        channel.queue_declare("q")
        channel.exchange_bind("e2", "e", "k")
        channel.queue_bind("q", "e2")
        channel.queue_delete("q")
        for name in ("e2", "e"):
            gone = self.channel()
            self.refused(404, f"no exchange '{name}'", gone, lambda: gone.exchange_declare(name, passive=True))

    def test_exclusive_goes_with_its_connection(self):
        channel = self.channel()
        channel.queue_declare("mine", exclusive=True)
        channel.close()
        again = channel.connection.channel()
        again.queue_declare("mine", passive=True)
        again.connection.close()
        self.until(self.is_there("mine", False), "the exclusive queue is gone")

    def is_there(self, queue, wanted):
        def asked():
            try:
                self.channel().queue_declare(queue, passive=True)
                return wanted
            except pika.exceptions.ChannelClosedByBroker as refusal:
                return not wanted and refusal.reply_code == 404

        return asked

    def test_last_declared_queue_is_meant_by_no_name(self):
        channel = self.channel(confirms=True)
        name = channel.queue_declare("").method.queue
        channel.exchange_declare("e", "direct")
        channel.queue_bind("", "e", "")
        self.publish(channel, name, "by its name", "e")
        self.assertEqual(self.bodies(channel, "", 1), ["by its name"])
        other = self.channel()
        self.refused(404, "no previously declared queue", other, lambda: other.queue_bind("", "e", "k"))

    def test_what_is_not_there(self):
        for text, deed in (
            ("no queue 'none' in vhost '/'", lambda c: c.queue_bind("none", "amq.direct", "k")),
            ("no exchange 'none' in vhost '/'", lambda c: c.queue_bind("q", "none", "k")),
            ("no exchange 'none' in vhost '/'", lambda c: c.exchange_bind("none", "amq.direct", "k")),
            ("no exchange 'none' in vhost '/'", lambda c: c.exchange_bind("amq.direct", "none", "k")),
            ("no queue 'none' in vhost '/'", lambda c: c.basic_get("none")),
            ("no queue 'none' in vhost '/'", lambda c: c.basic_consume("none", print)),
            ("no queue 'none' in vhost '/'", lambda c: c.queue_purge("none")),
        ):
            channel = self.channel()
            channel.queue_declare("q")
            self.refused(404, text, channel, lambda: deed(channel))
        channel = self.channel()
        channel.queue_unbind("q", "amq.direct", "never bound")
        channel.queue_unbind("none", "amq.direct", "k")
        channel.queue_unbind("q", "none", "k")
        channel.exchange_unbind("none", "amq.direct", "k")
        channel.exchange_delete("none")

    def test_queue_expires(self):
        channel = self.channel()
        channel.queue_declare("q", arguments={"x-expires": 300})
        _, tag = self.consume(channel, "q")
        self.quiet(channel, 0.5)
        channel.queue_declare("q", passive=True)
        channel.basic_cancel(tag)
        # Passive declarations do not put it off here, so ask once, late.
        self.quiet(channel, 1)
        self.refused(404, "no queue 'q'", channel, lambda: channel.queue_declare("q", passive=True))

    def test_unbinding(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q")
        for arguments in ({"x-match": "any", "a": 1}, {"x-match": "any", "b": 1}):
            channel.queue_bind("q", "amq.headers", "", arguments)
            channel.queue_bind("q", "amq.headers", "", arguments)
        channel.queue_unbind("q", "amq.headers", "", {"x-match": "any", "a": 1})
        self.publish(channel, "", "a", "amq.headers", headers={"a": 1})
        self.publish(channel, "", "b", "amq.headers", headers={"b": 1})
        self.assertEqual(self.bodies(channel, "q", 1), ["b"])
        self.assertEmpty(channel, "q")
