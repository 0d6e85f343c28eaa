//! The records of what AMQP clients declare.
//!
//! | type | record | body |
//! |---|---|---|
//! | 25 | exchange declared | vhost, name, exchange |
//! | 26 | exchange deleted | vhost, name |
//! | 27 | queue declared | vhost, name, queue, declaration |
//! | 28 | queue deleted | queue |
//! | 29 | bound | vhost, destination, binding |
//! | 30 | unbound | vhost, destination, binding |
//! | 31 | range settled | queue, from, to |
//! | 32 | image of an exchange | vhost, name, exchange, list of binding |
//! | 33 | image of a declared queue | vhost, name, queue, declaration, list of binding, list of (horizon, next position) by lane |
//!
//! An exchange: kind byte, flags byte (1 auto-delete, 2 internal, 4 delays), arguments. A queue's declaration: flags byte
//! (1 auto-delete), lanes, arguments. A destination: 0 and queue, or 1 and exchange's name. A binding: source, key,
//! arguments. Arguments are AMQP field tables as they came.

use super::{Fields, put_bytes, put_number, put_numbers};
use crate::durable::topology::{ExchangeImage, QueueImage, QueueSpec, Topology};
use crate::routing::exchange::{Binding, Destination, ExchangeKind, ExchangeSpec};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub(super) fn type_of(topology: &Topology) -> u8 {
    match topology {
        Topology::ExchangeDeclared { .. } => 25,
        Topology::ExchangeDeleted { .. } => 26,
        Topology::QueueDeclared { .. } => 27,
        Topology::QueueDeleted { .. } => 28,
        Topology::Bound { .. } => 29,
        Topology::Unbound { .. } => 30,
    }
}

pub(super) fn put(out: &mut Vec<u8>, topology: &Topology) {
    match topology {
        Topology::ExchangeDeclared { vhost, name, spec } => {
            put_names(out, vhost, name);
            put_exchange(out, spec);
        }
        Topology::ExchangeDeleted { vhost, name } => put_names(out, vhost, name),
        Topology::QueueDeclared { vhost, name, queue, spec } => {
            put_names(out, vhost, name);
            put_number(out, queue.0);
            put_queue(out, spec);
        }
        Topology::QueueDeleted { queue } => put_number(out, queue.0),
        Topology::Bound { vhost, to, binding } | Topology::Unbound { vhost, to, binding } => {
            put_bytes(out, vhost.as_bytes());
            match to {
                Destination::Queue(queue) => put_numbers(out, &[0, queue.0]),
                Destination::Exchange(name) => {
                    out.push(1);
                    put_bytes(out, name.as_bytes());
                }
            }
            put_binding(out, binding);
        }
    }
}

pub(super) fn put_exchange_image(out: &mut Vec<u8>, image: &ExchangeImage) {
    put_names(out, &image.vhost, &image.name);
    put_exchange(out, &image.spec);
    put_bindings(out, &image.bindings);
}

pub(super) fn put_queue_image(out: &mut Vec<u8>, image: &QueueImage) {
    put_names(out, &image.vhost, &image.name);
    put_number(out, image.queue.0);
    put_queue(out, &image.spec);
    put_bindings(out, &image.bindings);
    put_number(out, image.lanes.len() as u64);
    image.lanes.iter().for_each(|(horizon, next)| put_numbers(out, &[horizon.0, next.0]));
}

fn put_names(out: &mut Vec<u8>, vhost: &str, name: &str) {
    put_bytes(out, vhost.as_bytes());
    put_bytes(out, name.as_bytes());
}

fn put_exchange(out: &mut Vec<u8>, spec: &ExchangeSpec) {
    let flags = u8::from(spec.auto_delete) | (u8::from(spec.internal) << 1) | (u8::from(spec.delays) << 2);
    out.extend_from_slice(&[spec.kind as u8, flags]);
    put_bytes(out, &spec.arguments);
}

fn put_queue(out: &mut Vec<u8>, spec: &QueueSpec) {
    out.push(spec.auto_delete.into());
    put_number(out, spec.lanes.into());
    put_bytes(out, &spec.arguments);
}

fn put_bindings(out: &mut Vec<u8>, bindings: &[Binding]) {
    put_number(out, bindings.len() as u64);
    bindings.iter().for_each(|binding| put_binding(out, binding));
}

fn put_binding(out: &mut Vec<u8>, binding: &Binding) {
    put_bytes(out, binding.source.as_bytes());
    put_bytes(out, &binding.key);
    put_bytes(out, &binding.arguments);
}

impl Fields<'_> {
    pub(super) fn topology(&mut self, kind: u8) -> Option<Topology> {
        Some(match kind {
            25 => {
                let (vhost, name) = (self.text()?, self.name()?);
                Topology::ExchangeDeclared { vhost, name, spec: self.exchange()? }
            }
            26 => Topology::ExchangeDeleted { vhost: self.text()?, name: self.name()? },
            27 => {
                let (vhost, name, queue) = (self.text()?, self.name()?, self.queue()?);
                Topology::QueueDeclared { vhost, name, queue, spec: self.declaration()? }
            }
            28 => Topology::QueueDeleted { queue: self.queue()? },
            29 | 30 => {
                let (vhost, to) = (self.text()?, self.destination()?);
                let binding = self.binding()?;
                match kind {
                    29 => Topology::Bound { vhost, to, binding },
                    _ => Topology::Unbound { vhost, to, binding },
                }
            }
            _ => return None,
        })
    }

    pub(super) fn exchange_image(&mut self) -> Option<ExchangeImage> {
        let (vhost, name, spec) = (self.text()?, self.name()?, self.exchange()?);
        Some(ExchangeImage { vhost, name, spec, bindings: self.list(Fields::binding)? })
    }

    pub(super) fn declared_queue_image(&mut self) -> Option<QueueImage> {
        let (vhost, name, queue) = (self.text()?, self.name()?, self.queue()?);
        let (spec, bindings) = (self.declaration()?, self.list(Fields::binding)?);
        let lanes = self.list(|f| Some((f.position()?, f.position()?)))?;
        (lanes.len() == usize::from(spec.lanes)).then_some(QueueImage {
            vhost,
            name,
            queue,
            spec,
            bindings,
            lanes,
        })
    }

    fn name(&mut self) -> Option<Arc<str>> {
        self.text()
    }

    fn exchange(&mut self) -> Option<ExchangeSpec> {
        let kind = ExchangeKind::from_byte(self.byte()?)?;
        let flags = self.byte().filter(|flags| *flags < 8)?;
        let (auto_delete, internal, delays) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        let arguments = self.blob()?;
        Some(ExchangeSpec { kind, durable: true, auto_delete, internal, delays, arguments })
    }

    fn declaration(&mut self) -> Option<QueueSpec> {
        let auto_delete = self.flag()?;
        let lanes = u16::try_from(self.number()?).ok().filter(|lanes| (1..=256).contains(lanes))?;
        let arguments = self.blob()?;
        Some(QueueSpec { durable: true, exclusive: false, auto_delete, lanes, arguments })
    }

    fn destination(&mut self) -> Option<Destination> {
        Some(match self.flag()? {
            false => Destination::Queue(self.queue()?),
            true => Destination::Exchange(self.name()?),
        })
    }

    fn binding(&mut self) -> Option<Binding> {
        Some(Binding { source: self.name()?, key: self.blob()?, arguments: self.blob()? })
    }

    fn blob(&mut self) -> Option<Box<[u8]>> {
        let span = self.span()?;
        Some(self.bytes[span].into())
    }
}
