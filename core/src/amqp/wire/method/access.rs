//! The class access, left over from AMQP 0-8: old clients ask for a ticket, RabbitMQ gives 1 to everybody.

use super::definition::methods;
use crate::amqp::wire::short_str::ShortStr;

methods! { 30 "access";
    /// Access.Request: what it asks for means nothing.
    Request<'a> = 10 "request" [] {
        /// The realm.
        realm: ShortStr<'a>,
    } [bool, bool, bool, bool, bool];
    /// Access.Request-Ok.
    RequestOk = 11 "request_ok" [] {
        /// The ticket: 1.
        ticket: u16,
    } [];
}
