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
mod client;
mod disk;
pub mod effects;
pub mod fault;
mod generate;
mod happening;
mod model;
mod network;
pub mod outcome;
mod payload;
mod run;
pub mod scenario;
mod schedule;
pub mod shell;
mod tap;
mod trace;
mod world;

pub use generate::generate;
pub use run::{run, run_traced};
