//! A deterministic simulator for the core of vowmq.
//!
//! It drives the sans-io core over a simulated network, disk and clock, with clients that keep the rules of MQTT
//! 3.1.1 or 5, crashes it, and checks every promise. A run is a pure function of a [`scenario::Scenario`]; a seed only
//! generates one.
//!
//! ```text
//! clients ──bytes──▶ network ──inputs──▶ Broker ──orders──▶ disk ──synced──▶ ledger
//!    │  ◀────────────────────────────────┘   ▲                │ power cuts, lies  │
//!    ▼                                       └── Recovery ◀───┘                   ▼
//!  model (what was acknowledged) ──▶ checkers ◀──── what leaves, against what is synced
//! ```
//!
//! Where things are: `scenario`, `fault` and `generate` say what happens; `world` makes it happen, over `network`, `disk`,
//! `clock` and `client`, which speaks both versions through `codec`; `model` knows what clients were promised, `ledger` what is
//! on the platter, `world/wire` holds what leaves against the latter and `world/damage` judges what becomes of damage.
//! [`campaign`], [`exhaust`], [`shrink`], [`corpus`] and [`planted`] run many; `trace`, [`recording`] and [`page`] show one.
//! [`shell`] is the same for the real network code, [`amqp`] for clients of AMQP 0-9-1; [`seeds`] runs many of either.
//! [`any`] is a scenario of clients of MQTT or AMQP.

pub mod amqp;
pub mod any;
pub mod campaign;
mod chance;
pub mod claim;
mod client;
mod clock;
mod codec;
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
pub mod seeds;
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
