//! MQTT 3.1 and 3.1.1: packets, topics, and what the broker does with them.

pub mod connection;
pub mod packet;
pub mod topic;

mod acknowledging;
pub(crate) mod connecting;
mod inbound;
mod subscribing;
mod will;
