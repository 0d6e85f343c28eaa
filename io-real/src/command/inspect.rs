//! `vowmq inspect`: the whole durable state of a stopped store.

use super::Failure;
use super::fact_line::FactLine;
use super::stopped_store::StoppedStore;
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::path::Path;
use vowmq_core::Broker;
use vowmq_core::durable::salvage::Pieces;
use vowmq_core::facts::Fact;

pub(super) fn inspect(data_dir: &Path, json: bool) -> Result<(), Failure> {
    let mut store = StoppedStore::open(data_dir)?;
    store.largest_segment()?;
    let broker = store.recover().map_err(|refusal| store.refused(&refusal))?.broker;
    match print(&broker, &mut store, json) {
        // `vowmq inspect | head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}

/// One fact after the other, its message read when its turn comes: a store may hold more than the memory.
fn print(broker: &Broker, store: &mut StoppedStore, json: bool) -> io::Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    let mut pieces = Pieces::default();
    broker.try_for_each_fact(|mut fact| {
        if let Fact::Queued { content, place: Some(place), .. }
        | Fact::InQueue { content, place: Some(place), .. }
        | Fact::Retained { content, place: Some(place), .. } = &mut fact
            && content.is_none()
        {
            *content = pieces.message(&mut |request| store.execute(&request), *place).ok();
        }
        let line = FactLine::from(&fact);
        if json {
            serde_json::to_writer(&mut out, &line)?;
            out.write_all(b"\n")
        } else {
            writeln!(out, "{line}")
        }
    })?;
    out.flush()
}
