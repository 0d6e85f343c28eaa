//! The records of what AMQP clients declare, any of them.

use super::super::super::record::Image;
use super::*;
use crate::durable::topology::{ExchangeImage, QueueImage, QueueSpec, Topology};
use crate::routing::exchange::{Binding, Destination, ExchangeKind, ExchangeSpec};
use alloc::boxed::Box;
use alloc::sync::Arc;

fn name() -> impl Strategy<Value = Arc<str>> {
    text()
}

fn blob() -> impl Strategy<Value = Box<[u8]>> {
    bytes().prop_map(Vec::into_boxed_slice)
}

prop_compose! {
    fn exchange()(kind in 1u8..5, flags in any::<[bool; 3]>(), arguments in blob()) -> ExchangeSpec {
        let kind = ExchangeKind::from_byte(kind).expect("1 to 4");
        let [auto_delete, internal, delays] = flags;
        ExchangeSpec { kind, durable: true, auto_delete, internal, delays, arguments }
    }
}

prop_compose! {
    fn queue()(auto_delete: bool, lanes in 1u16..257, arguments in blob()) -> QueueSpec {
        QueueSpec { durable: true, exclusive: false, auto_delete, lanes, arguments }
    }
}

prop_compose! {
    fn binding()(source in name(), key in blob(), arguments in blob()) -> Binding {
        Binding { source, key, arguments }
    }
}

fn destination() -> impl Strategy<Value = Destination> {
    prop_oneof![
        number().prop_map(|queue| Destination::Queue(QueueId(queue))),
        name().prop_map(Destination::Exchange),
    ]
}

pub fn topology() -> impl Strategy<Value = Topology> {
    let bound = || (text(), destination(), binding());
    prop_oneof![
        (text(), name(), exchange()).prop_map(|(vhost, name, spec)| Topology::ExchangeDeclared {
            vhost,
            name,
            spec
        }),
        (text(), name()).prop_map(|(vhost, name)| Topology::ExchangeDeleted { vhost, name }),
        (text(), name(), number(), queue()).prop_map(|(vhost, name, queue, spec)| {
            Topology::QueueDeclared { vhost, name, queue: QueueId(queue), spec }
        }),
        number().prop_map(|queue| Topology::QueueDeleted { queue: QueueId(queue) }),
        bound().prop_map(|(vhost, to, binding)| Topology::Bound { vhost, to, binding }),
        bound().prop_map(|(vhost, to, binding)| Topology::Unbound { vhost, to, binding }),
    ]
}

prop_compose! {
    fn exchange_image()(
        vhost in text(), name in name(), spec in exchange(), bindings in prop::collection::vec(binding(), 0..5),
    ) -> Image {
        Image::Exchange(ExchangeImage { vhost, name, spec, bindings })
    }
}

prop_compose! {
    fn queue_image()(
        names in (text(), name(), number()), mut spec in queue(), bindings in prop::collection::vec(binding(), 0..5),
        lanes in prop::collection::vec((number(), number()), 1..5),
    ) -> Image {
        let (vhost, name, queue) = names;
        spec.lanes = lanes.len() as u16;
        let lanes = lanes.into_iter().map(|(horizon, next)| (QueuePosition(horizon), QueuePosition(next)));
        let (queue, lanes) = (QueueId(queue), lanes.collect());
        Image::DeclaredQueue(QueueImage { vhost, name, queue, spec, bindings, lanes })
    }
}

pub fn image() -> impl Strategy<Value = Image> {
    prop_oneof![exchange_image(), queue_image()]
}
