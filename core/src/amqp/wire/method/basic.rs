//! The class basic (§1.8.3): publishing, consuming, acknowledging; Nack and confirms are RabbitMQ's.

use super::definition::methods;
use crate::amqp::wire::DeliveryTag;
use crate::amqp::wire::short_str::ShortStr;
use crate::amqp::wire::table::Table;

methods! { 60 "basic";
    /// Basic.Qos: how much may be on its way to a consumer.
    Qos = 10 "qos" [] {
        /// Bytes; 0 is no limit. RabbitMQ knows no other.
        prefetch_size: u32,
        /// Messages; 0 is no limit.
        prefetch_count: u16,
        /// For the whole channel, not for each consumer begun from now on (RabbitMQ's reading).
        global: bool,
    } [];
    /// Basic.Qos-Ok.
    QosOk = 11 "qos_ok" [] {} [];
    /// Basic.Consume.
    Consume<'a> = 20 "consume" [u16] {
        /// The queue; empty for the channel's last declared.
        queue: ShortStr<'a>,
        /// The consumer's name on its channel; empty for one that the server makes up.
        consumer_tag: ShortStr<'a>,
        /// Not what this connection published. RabbitMQ does not look at it.
        no_local: bool,
        /// A message is settled when it is sent.
        no_ack: bool,
        /// No other consumer beside it.
        exclusive: bool,
        /// Without an answer.
        no_wait: bool,
        /// What else it is to be.
        arguments: Table,
    } [];
    /// Basic.Consume-Ok.
    ConsumeOk<'a> = 21 "consume_ok" [] {
        /// The consumer's name.
        consumer_tag: ShortStr<'a>,
    } [];
    /// Basic.Cancel: from a client, or from the server if the queue goes (RabbitMQ).
    Cancel<'a> = 30 "cancel" [] {
        /// The consumer's name.
        consumer_tag: ShortStr<'a>,
        /// Without an answer.
        no_wait: bool,
    } [];
    /// Basic.Cancel-Ok.
    CancelOk<'a> = 31 "cancel_ok" [] {
        /// The consumer's name.
        consumer_tag: ShortStr<'a>,
    } [];
    /// Basic.Publish; content follows.
    Publish<'a> = 40 "publish" content true [u16] {
        /// Where to; empty for the default exchange.
        exchange: ShortStr<'a>,
        /// What bindings are compared with.
        routing_key: ShortStr<'a>,
        /// Comes back if it has no queue to go to.
        mandatory: bool,
        /// Comes back if it has no consumer to go to. RabbitMQ refuses it.
        immediate: bool,
    } [];
    /// Basic.Return: a message that has nowhere to go; content follows.
    Return<'a> = 50 "return" content true [] {
        /// Why.
        reply_code: u16,
        /// Why, in words.
        reply_text: ShortStr<'a>,
        /// As it was published.
        exchange: ShortStr<'a>,
        /// As it was published.
        routing_key: ShortStr<'a>,
    } [];
    /// Basic.Deliver: a message to a consumer; content follows.
    Deliver<'a> = 60 "deliver" content true [] {
        /// The consumer's name.
        consumer_tag: ShortStr<'a>,
        /// The delivery's number on its channel.
        delivery_tag: DeliveryTag,
        /// May have been delivered before.
        redelivered: bool,
        /// As it was published.
        exchange: ShortStr<'a>,
        /// As it was published.
        routing_key: ShortStr<'a>,
    } [];
    /// Basic.Get: one message, now.
    Get<'a> = 70 "get" [u16] {
        /// The queue; empty for the channel's last declared.
        queue: ShortStr<'a>,
        /// The message is settled when it is sent.
        no_ack: bool,
    } [];
    /// Basic.Get-Ok: it; content follows.
    GetOk<'a> = 71 "get_ok" content true [] {
        /// The delivery's number on its channel.
        delivery_tag: DeliveryTag,
        /// May have been delivered before.
        redelivered: bool,
        /// As it was published.
        exchange: ShortStr<'a>,
        /// As it was published.
        routing_key: ShortStr<'a>,
        /// Messages that are left in the queue.
        message_count: u32,
    } [];
    /// Basic.Get-Empty: there is none.
    GetEmpty = 72 "get_empty" [] {} [ShortStr<'_>];
    /// Basic.Ack: settled; from the server a confirm (RabbitMQ).
    Ack = 80 "ack" [] {
        /// Which delivery, or which publish.
        delivery_tag: DeliveryTag,
        /// And all before it.
        multiple: bool,
    } [];
    /// Basic.Reject: one delivery is not wanted.
    Reject = 90 "reject" [] {
        /// Which.
        delivery_tag: DeliveryTag,
        /// Back into the queue, not away.
        requeue: bool,
    } [];
    /// Basic.Recover-Async: as Recover, without an answer; deprecated.
    RecoverAsync = 100 "recover_async" [] {
        /// To any consumer, not to the same one.
        requeue: bool,
    } [];
    /// Basic.Recover: everything unsettled on the channel again.
    Recover = 110 "recover" [] {
        /// To any consumer, not to the same one.
        requeue: bool,
    } [];
    /// Basic.Recover-Ok.
    RecoverOk = 111 "recover_ok" [] {} [];
    /// Basic.Nack (RabbitMQ): deliveries are not wanted; from the server: a publish was not taken.
    Nack = 120 "nack" [] {
        /// Which delivery, or which publish.
        delivery_tag: DeliveryTag,
        /// And all before it.
        multiple: bool,
        /// Back into the queue, not away.
        requeue: bool,
    } [];
}
