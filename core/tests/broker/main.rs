//! The core, tested through `Broker` and `Recovery` alone: bytes and disk results in, bytes and disk orders out.

mod acknowledgement_table;
mod amqp_consuming;
mod amqp_leaving;
mod amqp_publishing;
mod connecting;
mod crashes;
mod limits;
mod long_run;
mod mqtt5;
mod mqtt5_packets;
mod proving;
mod public_reports;
mod public_reports_storage;
mod publishing;
mod recovery;
mod retained;
mod room;
mod salvage;
mod sessions;
mod subscribing;
mod support;
mod wills;
mod wire;
