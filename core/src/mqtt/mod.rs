//! MQTT 3.1, 3.1.1 and 5: packets, topics, and what the broker does with them.

pub mod connection;
pub mod packet;
pub mod topic;

mod acknowledging;
pub(crate) mod authenticating;
pub(crate) mod connecting;
mod inbound;
pub(crate) mod presenting;
mod subscribing;
pub mod terms;
mod will;
