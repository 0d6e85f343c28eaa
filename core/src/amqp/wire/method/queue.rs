//! The class queue (§1.7.2).

use super::definition::methods;
use crate::amqp::wire::short_str::ShortStr;
use crate::amqp::wire::table::Table;

methods! { 50 "queue";
    /// Queue.Declare.
    Declare<'a> = 10 "declare" [u16] {
        /// Its name; empty for one that the server makes up.
        queue: ShortStr<'a>,
        /// Only asks whether it is there.
        passive: bool,
        /// Survives a restart.
        durable: bool,
        /// For this connection alone, and goes with it.
        exclusive: bool,
        /// Goes with its last consumer.
        auto_delete: bool,
        /// Without an answer.
        no_wait: bool,
        /// What else it is to be.
        arguments: Table,
    } [];
    /// Queue.Declare-Ok.
    DeclareOk<'a> = 11 "declare_ok" [] {
        /// Its name.
        queue: ShortStr<'a>,
        /// Messages that are ready.
        message_count: u32,
        /// Consumers.
        consumer_count: u32,
    } [];
    /// Queue.Bind.
    Bind<'a> = 20 "bind" [u16] {
        /// The queue; empty for the channel's last declared.
        queue: ShortStr<'a>,
        /// The exchange.
        exchange: ShortStr<'a>,
        /// What has to match.
        routing_key: ShortStr<'a>,
        /// Without an answer.
        no_wait: bool,
        /// What else has to match.
        arguments: Table,
    } [];
    /// Queue.Bind-Ok.
    BindOk = 21 "bind_ok" [] {} [];
    /// Queue.Purge.
    Purge<'a> = 30 "purge" [u16] {
        /// The queue; empty for the channel's last declared.
        queue: ShortStr<'a>,
        /// Without an answer.
        no_wait: bool,
    } [];
    /// Queue.Purge-Ok.
    PurgeOk = 31 "purge_ok" [] {
        /// Messages that went.
        message_count: u32,
    } [];
    /// Queue.Delete.
    Delete<'a> = 40 "delete" [u16] {
        /// The queue; empty for the channel's last declared.
        queue: ShortStr<'a>,
        /// Only if it has no consumers.
        if_unused: bool,
        /// Only if it has no messages.
        if_empty: bool,
        /// Without an answer.
        no_wait: bool,
    } [];
    /// Queue.Delete-Ok.
    DeleteOk = 41 "delete_ok" [] {
        /// Messages that went with it.
        message_count: u32,
    } [];
    /// Queue.Unbind.
    Unbind<'a> = 50 "unbind" [u16] {
        /// The queue; empty for the channel's last declared.
        queue: ShortStr<'a>,
        /// The exchange.
        exchange: ShortStr<'a>,
        /// As it was bound.
        routing_key: ShortStr<'a>,
        /// As it was bound.
        arguments: Table,
    } [];
    /// Queue.Unbind-Ok.
    UnbindOk = 51 "unbind_ok" [] {} [];
}
