//! The class exchange (§1.6.2), with RabbitMQ's bindings between exchanges.

use super::definition::methods;
use crate::amqp::wire::short_str::ShortStr;
use crate::amqp::wire::table::Table;

methods! { 40 "exchange";
    /// Exchange.Declare.
    Declare<'a> = 10 "declare" [u16] {
        /// Its name.
        exchange: ShortStr<'a>,
        /// Its type: "direct", "topic" and so on.
        kind: ShortStr<'a>,
        /// Only asks whether it is there.
        passive: bool,
        /// Survives a restart.
        durable: bool,
        /// Goes with its last binding.
        auto_delete: bool,
        /// Only other exchanges may publish to it.
        internal: bool,
        /// Without an answer.
        no_wait: bool,
        /// What else it is to be.
        arguments: Table,
    } [];
    /// Exchange.Declare-Ok.
    DeclareOk = 11 "declare_ok" [] {} [];
    /// Exchange.Delete.
    Delete<'a> = 20 "delete" [u16] {
        /// Its name.
        exchange: ShortStr<'a>,
        /// Only if it has no bindings.
        if_unused: bool,
        /// Without an answer.
        no_wait: bool,
    } [];
    /// Exchange.Delete-Ok.
    DeleteOk = 21 "delete_ok" [] {} [];
    /// Exchange.Bind (RabbitMQ): what matches goes from one exchange to another.
    Bind<'a> = 30 "bind" [u16] {
        /// To which.
        destination: ShortStr<'a>,
        /// From which.
        source: ShortStr<'a>,
        /// What has to match.
        routing_key: ShortStr<'a>,
        /// Without an answer.
        no_wait: bool,
        /// What else has to match.
        arguments: Table,
    } [];
    /// Exchange.Bind-Ok (RabbitMQ).
    BindOk = 31 "bind_ok" [] {} [];
    /// Exchange.Unbind (RabbitMQ).
    Unbind<'a> = 40 "unbind" [u16] {
        /// To which.
        destination: ShortStr<'a>,
        /// From which.
        source: ShortStr<'a>,
        /// As it was bound.
        routing_key: ShortStr<'a>,
        /// Without an answer.
        no_wait: bool,
        /// As it was bound.
        arguments: Table,
    } [];
    /// Exchange.Unbind-Ok (RabbitMQ); its number is 51, out of line.
    UnbindOk = 51 "unbind_ok" [] {} [];
}
