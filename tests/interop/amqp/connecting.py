"""Connections: who may, what is agreed, heartbeats, frames that are wrong. With pika, and with frames built by pamqp."""

import socket
import struct
import time

import pamqp.base
import pamqp.commands as commands
import pamqp.frame
import pamqp.header
import pamqp.heartbeat
from pamqp.body import ContentBody

from broker import PATIENCE, Case, vowmq_only


class Wire:
    """A connection whose frames the test writes itself; they are encoded and decoded by pamqp."""

    def __init__(self, port, frame_max=131072, heartbeat=0, channel_max=2047, open=True, capabilities=None, vhost="/"):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.input, self.blocked = b"", False
        if not open:
            return
        self.raw(b"AMQP\0\0\x09\x01")
        self.start = self.expect(commands.Connection.Start)
        properties = {"capabilities": capabilities or {}}
        self.send(0, commands.Connection.StartOk(properties, "PLAIN", "\0guest\0guest", "en_US"))
        self.tune = self.expect(commands.Connection.Tune)
        self.send(0, commands.Connection.TuneOk(channel_max, frame_max, heartbeat))
        self.send(0, commands.Connection.Open(vhost))

    def opened(self, channel=1):
        """The connection, with this channel open."""
        self.expect(commands.Connection.OpenOk)
        self.send(channel, commands.Channel.Open())
        while isinstance((found := self.next())[1], commands.Connection.Blocked):
            self.blocked = True
        assert isinstance(found[1], commands.Channel.OpenOk), found
        return self

    def raw(self, data):
        self.socket.sendall(data)

    def send(self, channel, *frames):
        self.raw(b"".join(pamqp.frame.marshal(frame, channel) for frame in frames))

    def next(self):
        """`(channel, frame)`; none at the end of the connection."""
        while True:
            size = 7 + struct.unpack(">I", self.input[3:7])[0] + 1 if len(self.input) >= 7 else 7
            if len(self.input) >= size > 7:
                consumed, channel, frame = pamqp.frame.unmarshal(self.input)
                self.last = self.input[:consumed]
                self.input = self.input[consumed:]
                return channel, frame
            try:
                more = self.socket.recv(1 << 20)
            except ConnectionResetError:
                return None
            if not more:
                return None
            self.input += more

    def expect(self, kind):
        found = self.next()
        assert found and isinstance(found[1], kind), f"{kind.__name__} was to come, {found and found[1]} came"
        return found[1]

    def is_cut(self):
        """Whether the connection ends, whatever comes before."""
        while found := self.next():
            if isinstance(found[1], commands.Connection.Close):
                return False
        return True


def content(body, size=None, **properties):
    header = pamqp.header.ContentHeader(0, len(body) if size is None else size, commands.Basic.Properties(**properties))
    return header


class WireCase(Case):
    """A test that writes its own frames."""

    def wire(self, **options):
        wire = Wire(self.broker.port, **options)
        self.addCleanup(wire.socket.close)
        return wire

    def assertCloses(self, wire, *codes):
        """The broker says Close with one of these codes, and cuts the connection when that is answered."""
        while True:
            found = wire.next()
            self.assertIsNotNone(found, "the connection was cut without a word")
            if isinstance(found[1], commands.Connection.Close):
                break
        self.assertIn(found[1].reply_code, codes, found[1].reply_text)
        wire.send(0, commands.Connection.CloseOk())
        self.assertIsNone(wire.next())
        return found[1]


class Connecting(WireCase):
    def test_start_says_what_is_here(self):
        start = self.wire().start
        self.assertEqual({"PLAIN", "AMQPLAIN"}, set(start.mechanisms.split()))
        self.assertIn("en_US", start.locales.split())
        for capability in (
            "consumer_cancel_notify basic.nack exchange_exchange_bindings publisher_confirms connection.blocked "
            "authentication_failure_close consumer_priorities per_consumer_qos direct_reply_to"
        ).split():
            self.assertTrue(start.server_properties["capabilities"][capability], capability)

    @vowmq_only
    def test_another_protocol_is_told_what_is_spoken(self):
        for header in (b"AMQP\0\1\0\0", b"AMQP\1\1\0\x0a", b"GET / HTTP/1.1\r\n\r\n", b"AMQP\0\0\x09\x02"):
            wire = self.wire(open=False)
            wire.raw(header)
            answer = b""
            while more := wire.socket.recv(64):
                answer += more
            self.assertEqual(answer, b"AMQP\0\0\x09\x01")

    def test_virtual_host_that_is_not_there(self):
        wire = self.wire(vhost="elsewhere")
        close = self.assertCloses(wire, 530)
        self.assertIn("vhost elsewhere not found", close.reply_text)

    @vowmq_only
    def test_mechanism_that_is_not_offered(self):
        wire = self.wire(open=False)
        wire.raw(b"AMQP\0\0\x09\x01")
        wire.expect(commands.Connection.Start)
        can = {"capabilities": {"authentication_failure_close": True}}
        wire.send(0, commands.Connection.StartOk(can, "EXTERNAL", "", "en_US"))
        self.assertCloses(wire, 403, 503, 504, 530, 540, 505, 501, 502, 541)

    def test_amqplain(self):
        wire = self.wire(open=False)
        wire.raw(b"AMQP\0\0\x09\x01")
        wire.expect(commands.Connection.Start)
        entry = lambda name, value: bytes([len(name)]) + name + b"S" + struct.pack(">I", len(value)) + value
        response = (entry(b"LOGIN", b"guest") + entry(b"PASSWORD", b"guest")).decode()
        wire.send(0, commands.Connection.StartOk({}, "AMQPLAIN", response, "en_US"))
        wire.expect(commands.Connection.Tune)

    def test_heartbeats_come_and_a_silent_peer_goes(self):
        wire = self.wire(heartbeat=1).opened()
        began, beats = time.monotonic(), 0
        while found := wire.next():
            beats += isinstance(found[1], pamqp.heartbeat.Heartbeat)
        self.assertGreater(beats, 1)
        self.assertTrue(1.5 < time.monotonic() - began < 5, time.monotonic() - began)

    def test_a_peer_that_beats_stays(self):
        wire = self.wire(heartbeat=1).opened()
        until = time.monotonic() + 3.5
        while time.monotonic() < until:
            wire.send(0, pamqp.heartbeat.Heartbeat())
            time.sleep(0.4)
        wire.send(1, commands.Queue.Declare(queue="q"))
        while not isinstance((found := wire.next())[1], commands.Queue.DeclareOk):
            self.assertIsInstance(found[1], pamqp.heartbeat.Heartbeat)

    def test_silent_owner_of_an_exclusive_queue(self):
        wire = self.wire(heartbeat=1).opened()
        wire.send(1, commands.Queue.Declare(queue="mine", exclusive=True))
        wire.expect(commands.Queue.DeclareOk)
        channel = self.channel()
        text = "cannot obtain exclusive access to locked queue 'mine' in vhost '/'"
        for deed in (
            lambda c: c.queue_declare("mine"),
            lambda c: c.queue_declare("mine", passive=True),
            lambda c: c.queue_delete("mine"),
            lambda c: c.queue_purge("mine"),
            lambda c: c.queue_bind("mine", "amq.direct", "k"),
            lambda c: c.basic_get("mine"),
            lambda c: c.basic_consume("mine", print),
        ):
            channel = self.channel()
            self.refused(405, text, channel, lambda: deed(channel))
        time.sleep(2)
        self.until(lambda: wire.is_cut(), "the silent owner is cut")
        self.channel().queue_declare("mine")

    @vowmq_only
    def test_tune_at_its_edges(self):
        for frame_max, channel_max, fine in (
            (4096, 2047, True),
            (131072, 1, True),
            (0, 0, True),
            (4095, 2047, False),
            (131073, 2047, False),
            (131072, 2048, False),
        ):
            wire = self.wire(frame_max=frame_max, channel_max=channel_max)
            with self.subTest(frame_max=frame_max, channel_max=channel_max):
                if fine:
                    wire.expect(commands.Connection.OpenOk)
                else:
                    found = wire.next()
                    self.assertTrue(found is None or found[1].reply_code == 530, found)

    @vowmq_only
    def test_channel_above_what_was_agreed(self):
        wire = self.wire(channel_max=3).opened(3)
        wire.send(4, commands.Channel.Open())
        self.assertCloses(wire, 530, 504)

    def test_small_frames_both_ways(self):
        channel = self.channel(confirms=True, frame_max=4096)
        channel.queue_declare("q", durable=True)
        body = bytes(range(256)) * 400
        self.publish(channel, "q", body, delivery_mode=2)
        self.assertTrue(self.take(channel, "q", 1)[0][2] == body)
        wire = self.wire(frame_max=4096).opened()
        self.publish(channel, "q", body)
        wire.send(1, commands.Basic.Get(queue="q"))
        wire.expect(commands.Basic.GetOk)
        wire.expect(pamqp.header.ContentHeader)
        got = b""
        while len(got) < len(body):
            got += wire.expect(ContentBody).value
            self.assertLessEqual(len(wire.last), 4096)
        self.assertTrue(got == body)

    def test_frame_that_is_too_large(self):
        wire = self.wire(frame_max=4096).opened()
        wire.send(1, commands.Basic.Publish(routing_key="q"), content(b"x" * 5000), ContentBody(b"x" * 5000))
        self.assertCloses(wire, 501)

    def test_frame_without_its_end(self):
        wire = self.wire().opened()
        frame = bytearray(pamqp.frame.marshal(commands.Queue.Declare(queue="q"), 1))
        frame[-1] = 0
        wire.raw(bytes(frame))
        self.assertCloses(wire, 501)

    @vowmq_only
    def test_method_that_is_not_there(self):
        wire = self.wire().opened()
        wire.raw(struct.pack(">BHIHHB", 1, 1, 4, 60, 255, 0xCE))
        self.assertCloses(wire, 540, 503, 501, 502)

    @vowmq_only
    def test_table_that_cannot_be_decoded(self):
        wire = self.wire().opened()
        payload = struct.pack(">HHH", 50, 10, 0) + b"\1q" + b"\0" + struct.pack(">I", 3) + b"\1a?"
        wire.raw(struct.pack(">BHI", 1, 1, len(payload)) + payload + b"\xce")
        self.assertCloses(wire, 502, 501, 541)

    @vowmq_only
    def test_close_text_names_the_method(self):
        wire = self.wire().opened()
        wire.send(1, commands.Queue.Declare(queue="none", passive=True))
        close = wire.expect(commands.Channel.Close)
        self.assertEqual((close.reply_code, close.class_id, close.method_id), (404, 50, 10))
        wire.send(1, commands.Basic.Publish(routing_key="x"))  # passed by until it is answered
        wire.send(1, commands.Channel.CloseOk())
        wire.send(1, commands.Channel.Open())
        wire.expect(commands.Channel.OpenOk)

    def test_a_byte_at_a_time(self):
        wire = self.wire().opened()
        data = b"".join(
            pamqp.frame.marshal(frame, 1)
            for frame in (
                commands.Queue.Declare(queue="slow"),
                commands.Basic.Publish(routing_key="slow"),
                content(b"ab"),
                ContentBody(b"a"),
                ContentBody(b"b"),
                commands.Basic.Get(queue="slow", no_ack=True),
            )
        )
        for byte in data:
            wire.raw(bytes([byte]))
        wire.expect(commands.Queue.DeclareOk)
        wire.expect(commands.Basic.GetOk)
        wire.expect(pamqp.header.ContentHeader)
        self.assertEqual(wire.expect(ContentBody).value, b"ab")

    def test_channel_that_goes_before_its_get_is_answered(self):
        channel = self.channel(confirms=True)
        channel.queue_declare("q", durable=True)
        for number in range(20):
            self.publish(channel, "q", str(number), delivery_mode=2)
            wire = self.wire().opened()
            get = commands.Basic.Get(queue="q", no_ack=False)
            wire.send(1, get, commands.Channel.Close(200, "", 0, 0), commands.Channel.Open())
            wire.socket.close()
        self.assertEqual([int(body) for body in self.bodies(channel, "q", 20)], list(range(20)))

    def test_no_wait(self):
        wire = self.wire().opened()
        wire.send(
            1,
            commands.Exchange.Declare(exchange="e", exchange_type="fanout", nowait=True),
            commands.Exchange.Declare(exchange="f", exchange_type="fanout", nowait=True),
            commands.Exchange.Bind(destination="f", source="e", nowait=True),
            commands.Queue.Declare(queue="q", nowait=True),
            commands.Queue.Bind(queue="q", exchange="f", nowait=True),
            commands.Confirm.Select(nowait=True),
            commands.Basic.Publish(exchange="e"),
            content(b"1"),
            ContentBody(b"1"),
        )
        wire.expect(commands.Basic.Ack)
        wire.send(1, commands.Queue.Purge(queue="q", nowait=True), commands.Queue.Declare(queue="q", passive=True))
        self.assertEqual(wire.expect(commands.Queue.DeclareOk).message_count, 0)
        wire.send(
            1,
            commands.Basic.Consume(queue="q", consumer_tag="c", nowait=True, no_ack=True),
            commands.Basic.Publish(exchange="e"),
            content(b""),
        )
        kinds = {type(wire.next()[1]) for _ in range(3)}
        self.assertEqual(kinds, {commands.Basic.Ack, commands.Basic.Deliver, pamqp.header.ContentHeader})
        wire.send(
            1,
            commands.Basic.Cancel(consumer_tag="c", nowait=True),
            commands.Exchange.Unbind(destination="f", source="e", nowait=True),
            commands.Queue.Delete(queue="q", nowait=True),
            commands.Exchange.Delete(exchange="e", nowait=True),
            commands.Queue.Declare(queue="q", passive=True),
        )
        self.assertEqual(wire.expect(commands.Channel.Close).reply_code, 404)

    @vowmq_only
    def test_flow(self):
        wire = self.wire().opened()
        wire.send(1, commands.Queue.Declare(queue="q"), commands.Basic.Consume(queue="q", consumer_tag="c", no_ack=True))
        wire.expect(commands.Queue.DeclareOk)
        wire.expect(commands.Basic.ConsumeOk)
        wire.send(1, commands.Channel.Flow(False))
        self.assertFalse(wire.expect(commands.Channel.FlowOk).active)
        wire.send(1, commands.Basic.Publish(routing_key="q"), content(b""), commands.Queue.Declare(queue="q", passive=True))
        self.assertEqual(wire.expect(commands.Queue.DeclareOk).message_count, 1)
        wire.send(1, commands.Channel.Flow(True))
        wire.expect(commands.Channel.FlowOk)
        wire.expect(commands.Basic.Deliver)

    @vowmq_only
    def test_close_is_answered_and_channel_may_come_again(self):
        wire = self.wire().opened()
        wire.send(1, commands.Channel.Close(200, "done", 0, 0), commands.Channel.Open())
        wire.expect(commands.Channel.CloseOk)
        wire.expect(commands.Channel.OpenOk)
        wire.send(0, commands.Connection.Close(200, "bye", 0, 0))
        wire.expect(commands.Connection.CloseOk)
        self.assertIsNone(wire.next())


@vowmq_only
class LowOnDisk(WireCase):
    """The free space that is asked for is more than any disk has, until it is taken back."""

    def setUp(self):
        super().setUp()
        wire = self.wire().opened()
        wire.send(1, commands.Queue.Declare(queue="q", durable=True))
        wire.expect(commands.Queue.DeclareOk)
        self.broker.settings = ("limits.free_bytes=1000000 GiB",)
        self.broker.restart()

    def test_publishers_are_told_and_everything_else_goes_on(self):
        wire = self.wire(capabilities={"connection.blocked": True}).opened()
        declare = commands.Queue.Declare(queue="q", durable=True)
        wire.send(1, declare, commands.Basic.Consume(queue="q", no_ack=True))
        kinds = [wire.next()[1] for _ in range(2 + (not wire.blocked))]
        reasons = [frame.reason for frame in kinds if isinstance(frame, commands.Connection.Blocked)]
        self.assertEqual(reasons, [] if wire.blocked else ["low on disk"])
        publish = commands.Basic.Publish(routing_key="q")
        wire.send(1, publish, content(b"held", delivery_mode=2), ContentBody(b"held"))
        wire.send(2, commands.Channel.Open())
        wire.expect(commands.Channel.OpenOk)
        wire.send(2, commands.Queue.Declare(queue="q", passive=True))
        self.assertEqual(wire.expect(commands.Queue.DeclareOk).message_count, 0)
        wire.send(2, commands.Queue.Declare(queue="new", durable=True))
        self.assertEqual(wire.expect(commands.Channel.Close).reply_code, 506)
        self.broker.change("limits.free_bytes=1 MiB")
        wire.expect(commands.Connection.Unblocked)
        wire.expect(commands.Basic.Deliver)
        wire.expect(pamqp.header.ContentHeader)
        self.assertEqual(wire.expect(ContentBody).value, b"held")

    def test_who_does_not_understand_is_not_told(self):
        wire = self.wire().opened()
        wire.send(1, commands.Queue.Declare(queue="passing"))
        wire.expect(commands.Queue.DeclareOk)
        self.assertFalse(wire.blocked)
