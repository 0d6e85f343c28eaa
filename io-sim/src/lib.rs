//! A deterministic simulator for the core of vowmq.
//!
//! It drives the sans-io core over a simulated network, disk and clock, with clients that keep the rules of MQTT
//! 3.1.1, crashes it, and checks every promise. A run is a pure function of a [`scenario::Scenario`]; a seed only
//! generates one.
//!
//! ```text
//! clients ──bytes──▶ network ──inputs──▶ Broker ──orders──▶ disk
//!    │  ◀────────────────────────────────┘   ▲                │ power cuts, failed syncs
//!    ▼                                       └── Recovery ◀───┘
//!  model (what was acknowledged) ──▶ checkers
//! ```

pub mod campaign;
mod chance;
pub mod claim;
mod client;
mod clock;
pub mod corpus;
pub mod coverage;
mod disk;
pub mod effects;
pub mod exhaust;
pub mod fault;
mod generate;
mod happening;
mod ledger;
mod model;
mod network;
pub mod outcome;
pub mod page;
mod payload;
pub mod planted;
pub mod recording;
mod run;
pub mod scenario;
mod schedule;
pub mod shell;
pub mod shrink;
mod tap;
mod trace;
pub mod watch;
pub mod words;
mod world;

pub use disk::CutSize;
pub use generate::generate;
pub use run::{run, run_recorded, run_traced};
