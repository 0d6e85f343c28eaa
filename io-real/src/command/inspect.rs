//! `vowmq inspect`: the whole durable state of a stopped store.

use super::Failure;
use super::fact_line::FactLine;
use super::stopped_store::recover_stopped;
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::path::Path;
use vowmq_core::Recovered;

pub(super) fn inspect(data_dir: &Path, json: bool) -> Result<(), Failure> {
    let recovered = recover_stopped(data_dir)?;
    match print(&recovered, json) {
        // `vowmq inspect | head` has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => Ok(outcome?),
    }
}

fn print(recovered: &Recovered, json: bool) -> io::Result<()> {
    let mut out = BufWriter::new(stdout().lock());
    for fact in recovered.broker.facts() {
        let line = FactLine::from(&fact);
        if json {
            serde_json::to_writer(&mut out, &line)?;
            out.write_all(b"\n")?;
        } else {
            writeln!(out, "{line}")?;
        }
    }
    out.flush()
}
