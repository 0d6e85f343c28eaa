//! Methods, one class a file (§1.4 and RabbitMQ's extensions).
//!
//! ```text
//! | class id: 2 | method id: 2 | fields |
//! ```
//!
//! A method is written down once, with its fields in their order; reading and writing follow from their types.

mod definition;

pub mod access;
pub mod basic;
pub mod channel;
pub mod confirm;
pub mod connection;
pub mod exchange;
pub mod queue;
pub mod tx;

pub use definition::PutMethod;

use super::field::Field;
use super::frame::{ChannelNumber, Frame};
use super::reader::Reader;
use super::violation::{Rule, Violation};
use core::fmt;
use definition::Definition;

/// The numbers of a class and of a method in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MethodId {
    /// The class.
    pub class: u16,
    /// The method.
    pub method: u16,
}

impl MethodId {
    /// No method: what Close says if none is to blame.
    pub const NONE: MethodId = MethodId { class: 0, method: 0 };

    /// Class and method as on the wire.
    pub const fn to_bytes(self) -> [u8; 4] {
        let ([c1, c0], [m1, m0]) = (self.class.to_be_bytes(), self.method.to_be_bytes());
        [c1, c0, m1, m0]
    }

    /// "queue.declare"; none if there is no such method.
    pub fn name(self) -> Option<&'static str> {
        let classes = [
            connection::ALL,
            channel::ALL,
            access::ALL,
            exchange::ALL,
            queue::ALL,
            basic::ALL,
            confirm::ALL,
            tx::ALL,
        ];
        classes.into_iter().flatten().find(|(id, _)| *id == self).map(|(_, name)| *name)
    }
}

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "method {} of class {}", self.method, self.class),
        }
    }
}

macro_rules! client_methods {
    ($($name:ident($class:ident :: $method:ident $(<$lt:lifetime>)?);)*) => {
        /// A method from a client.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Method<'a> {
            $(#[doc = concat!("`", stringify!($class), "::", stringify!($method), "`.")]
              $name($class::$method $(<$lt>)?),)*
        }

        impl<'a> Method<'a> {
            /// Which it is.
            pub fn id(&self) -> MethodId {
                match self { $(Method::$name(_) => $class::$method::ID,)* }
            }

            fn decode_fields(id: MethodId, fields: &'a [u8]) -> Result<Method<'a>, Violation> {
                $(if id == $class::$method::ID {
                    return $class::$method::decode(fields).map(Method::$name);
                })*
                let rule = if id.name().is_some() { Rule::MethodOnlyServersSend } else { Rule::MethodUnknown };
                Err(Violation { rule, method: id, place: "method" })
            }
        }
    };
}

client_methods! {
    BasicPublish(basic::Publish<'a>);
    BasicAck(basic::Ack);
    BasicNack(basic::Nack);
    BasicReject(basic::Reject);
    BasicGet(basic::Get<'a>);
    BasicQos(basic::Qos);
    BasicConsume(basic::Consume<'a>);
    BasicCancel(basic::Cancel<'a>);
    BasicCancelOk(basic::CancelOk<'a>);
    BasicRecover(basic::Recover);
    BasicRecoverAsync(basic::RecoverAsync);
    ConnectionStartOk(connection::StartOk<'a>);
    ConnectionSecureOk(connection::SecureOk<'a>);
    ConnectionTuneOk(connection::TuneOk);
    ConnectionOpen(connection::Open<'a>);
    ConnectionClose(connection::Close<'a>);
    ConnectionCloseOk(connection::CloseOk);
    ConnectionUpdateSecret(connection::UpdateSecret<'a>);
    ChannelOpen(channel::Open);
    ChannelFlow(channel::Flow);
    ChannelFlowOk(channel::FlowOk);
    ChannelClose(channel::Close<'a>);
    ChannelCloseOk(channel::CloseOk);
    AccessRequest(access::Request<'a>);
    ExchangeDeclare(exchange::Declare<'a>);
    ExchangeDelete(exchange::Delete<'a>);
    ExchangeBind(exchange::Bind<'a>);
    ExchangeUnbind(exchange::Unbind<'a>);
    QueueDeclare(queue::Declare<'a>);
    QueueBind(queue::Bind<'a>);
    QueueUnbind(queue::Unbind<'a>);
    QueuePurge(queue::Purge<'a>);
    QueueDelete(queue::Delete<'a>);
    ConfirmSelect(confirm::Select);
    TxSelect(tx::Select);
    TxCommit(tx::Commit);
    TxRollback(tx::Rollback);
}

impl<'a> Method<'a> {
    /// Decodes the payload of a method frame.
    ///
    /// # Errors
    /// `MethodUnknown`, `MethodOnlyServersSend`, a method on a channel where its class has no place, or what is wrong with
    /// its fields.
    pub fn decode(frame: &'a Frame) -> Result<Method<'a>, Violation> {
        let mut reader = Reader::new(&frame.payload);
        let ids = reader.u16().and_then(|class| Ok(MethodId { class, method: reader.u16()? }));
        let id = ids.map_err(|rule| Violation::outside(rule, "method"))?;
        let of_connection = id.class == connection::CLASS;
        match (of_connection, frame.channel == ChannelNumber::CONNECTION) {
            (true, false) => {
                Err(Violation { rule: Rule::ConnectionMethodOnChannel, method: id, place: "channel" })
            }
            (false, true) => {
                Err(Violation { rule: Rule::ChannelMethodOnChannelZero, method: id, place: "channel" })
            }
            (true, true) | (false, false) => Method::decode_fields(id, reader.rest()),
        }
    }
}
