//! The sans-io core of vowmq, a message broker whose acknowledgement means that the message is on disk.
//!
//! The core is a state machine. A driver hands it facts ([`input::Input`]) with the time, and carries out its orders
//! ([`output::Output`]). It knows no clock, socket, file or thread: the compiler sees to that (`no_std`). Start with
//! [`Recovery`], which turns the files of a store into a [`Broker`]. `core/ARCHITECTURE.md` is the map.

#![no_std]

extern crate alloc;

pub mod access;
pub mod amqp;
pub mod broker;
pub mod connection;
pub mod deadlines;
pub mod durable;
pub mod event;
pub mod facts;
pub mod ids;
pub mod input;
pub mod limits;
pub mod marks;
pub mod message;
pub mod mqtt;
pub mod outbox;
pub mod output;
pub mod queue;
pub mod routing;
pub mod send_queue;
pub mod session;
pub mod statistics;
pub mod time;

pub use broker::Broker;
pub use durable::recovery::{Purpose, Recovered, Recovery, RecoveryReport, Refusal};
