//! Who gets what: subscriptions to topics, and the retained message of each topic.

pub mod retained;
pub mod subscriptions;
