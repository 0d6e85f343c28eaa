//! The wire of AMQP 0-9-1: frames with their expected outcome, any bytes at all, and both codecs against each other.

mod any_bytes;
mod corpus;
mod cross_check;
mod methods;
mod theirs;
