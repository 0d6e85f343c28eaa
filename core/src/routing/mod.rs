//! Who gets what: subscriptions to topics, and the retained message of each topic.

pub mod exchange;
pub mod headers;
mod name_tree;
pub mod retained;
pub mod subscriptions;
pub mod topic_trie;
