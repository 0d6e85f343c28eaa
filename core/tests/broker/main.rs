//! The core, tested through `Broker` and `Recovery` alone: bytes and disk results in, bytes and disk orders out.

mod acknowledgement_table;
mod crashes;
mod recovery;
mod room;
mod support;
mod wire;
