//! Who gets what: subscriptions to topics, and the retained message of each topic.

pub mod exchange;
pub mod headers;
pub mod retained;
pub mod subscriptions;
pub mod topic_trie;
