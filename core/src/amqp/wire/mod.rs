//! The wire format of AMQP 0-9-1 with RabbitMQ's extensions, one class of methods a file.
//!
//! ```text
//! received bytes ──protocol_header──► ──frame::cut──► Frame ──► Method::decode          (kind 1)
//!                                                           ──► ContentHeader::decode   (kind 2)
//!                                                           ──► its payload, shared     (kind 3)
//! ```
//!
//! Methods borrow from the payload of their frame; what comes out is valid by its type. Tables are owned, for they are
//! rare where speed counts; a message's properties stay the bytes they came as. Encoding appends to a buffer.

pub mod content;
pub mod delivery;
pub mod field;
pub mod frame;
pub mod method;
pub mod properties;
pub mod protocol_header;
pub mod reader;
pub mod reply_code;
pub mod short_str;
pub mod table;
pub mod value;
pub mod violation;
pub mod writer;

pub use content::ContentHeader;
pub use frame::{ChannelNumber, Frame, FrameKind, FrameMax, Framed};
pub use method::{Method, MethodId, PutMethod};
pub use properties::{Properties, PropertiesBuilder, Property};
pub use protocol_header::ProtocolHeader;
pub use reply_code::ReplyCode;
pub use short_str::{ShortStr, ShortString};
pub use table::Table;
pub use value::Value;
pub use violation::{Rule, Violation};

/// The number of a delivery on its channel, from 1; 0 means "all so far" where a method says so (§1.2, delivery-tag).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryTag(pub u64);
