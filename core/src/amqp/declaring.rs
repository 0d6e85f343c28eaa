//! Exchanges, queues and bindings: declared, compared with what is there, bound, deleted (§1.6.2, §1.7.2).

use super::arguments::{self, ExchangeArguments, QueueArguments};
use super::consuming::encoded_table;
use super::delaying::is_hidden;
use super::fault::Fault;
use super::publishing::name_of;
use super::wire::method::{exchange, queue};
use super::wire::{ReplyCode, ShortStr, Table};
use crate::broker::Broker;
use crate::durable::record::Record;
use crate::durable::topology::{QueueSpec, Topology};
use crate::ids::{ConnectionId, Lsn, QueueId};
use crate::routing::exchange::{Binding, Destination, ExchangeKind, ExchangeSpec};
use crate::routing::headers::Pattern;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

/// The exchange type of a plugin of RabbitMQ: messages wait before they are routed.
const DELAYED: &str = "x-delayed-message";

impl Broker {
    pub(super) fn on_exchange_declare(
        &mut self,
        id: ConnectionId,
        number: u16,
        declare: &exchange::Declare<'_>,
    ) -> Result<(), Fault> {
        let name = name_of(declare.exchange);
        if name.is_empty() {
            return Err(not_on_default());
        }
        let vhost = self.peer(id).vhost;
        let known = self.state.exchange(vhost, name);
        let wait = match known {
            None if declare.passive => return Err(Fault::no("exchange", name)),
            Some(known) if declare.passive => known.changed,
            Some(known) => {
                let spec = exchange_spec(declare)?;
                same_exchange(name, &known.spec, &spec, &declare.arguments)?;
                known.changed
            }
            None => {
                check_new_name("exchange", name)?;
                let spec = exchange_spec(declare)?;
                self.check_disk(spec.durable)?;
                // Its queue first: without it the exchange would not delay.
                if spec.delays {
                    self.add_delay_queue(vhost, name, spec.durable);
                }
                let vhost = self.state.vhosts[vhost].name.clone();
                self.commit(Record::Topology(Topology::ExchangeDeclared { vhost, name: name.into(), spec }))
            }
        };
        if !declare.no_wait {
            self.answer(id, number, wait, &exchange::DeclareOk {});
        }
        Ok(())
    }

    pub(super) fn on_exchange_delete(
        &mut self,
        id: ConnectionId,
        number: u16,
        delete: &exchange::Delete<'_>,
    ) -> Result<(), Fault> {
        let name = name_of(delete.exchange);
        let vhost = self.peer(id).vhost;
        if name.is_empty() {
            return Err(not_on_default());
        }
        if name.starts_with("amq.") {
            return Err(Fault::refused(format!(
                "deletion of system exchange '{name}' in vhost '/' not allowed"
            )));
        }
        // As in RabbitMQ what is not there is deleted with success.
        let wait = match self.state.exchange(vhost, name) {
            None => self.amqp.last_deletion,
            Some(exchange) if delete.if_unused && !exchange.router.is_empty() => {
                return Err(Fault::precondition(format!("exchange '{name}' in vhost '/' in use")));
            }
            Some(_) => self.delete_exchange(vhost, name),
        };
        if !delete.no_wait {
            self.answer(id, number, wait, &exchange::DeleteOk {});
        }
        Ok(())
    }

    fn delete_exchange(&mut self, vhost: usize, name: &str) -> Lsn {
        let sources = self.state.exchange(vhost, name).map(|exchange| exchange.bindings.clone());
        let vhost_name = self.state.vhosts[vhost].name.clone();
        let lsn =
            self.commit(Record::Topology(Topology::ExchangeDeleted { vhost: vhost_name, name: name.into() }));
        self.amqp.last_deletion = self.amqp.last_deletion.max(lsn);
        self.remove_delay_queue(vhost, name);
        for binding in sources.into_iter().flatten() {
            self.unused_exchange_goes(vhost, &binding.source);
        }
        lsn
    }

    /// An exchange that goes with its last binding.
    pub(super) fn unused_exchange_goes(&mut self, vhost: usize, name: &str) {
        let exchange = self.state.exchange(vhost, name);
        if exchange.is_some_and(|exchange| exchange.spec.auto_delete && exchange.router.is_empty()) {
            self.delete_exchange(vhost, name);
        }
    }

    pub(super) fn on_exchange_bind(
        &mut self,
        id: ConnectionId,
        number: u16,
        bind: &exchange::Bind<'_>,
    ) -> Result<(), Fault> {
        let to = self.exchange_destination(id, bind.destination)?;
        let wait = self.bind(id, to, bind.source, bind.routing_key, &bind.arguments)?;
        if !bind.no_wait {
            self.answer(id, number, wait, &exchange::BindOk {});
        }
        Ok(())
    }

    pub(super) fn on_exchange_unbind(
        &mut self,
        id: ConnectionId,
        number: u16,
        unbind: &exchange::Unbind<'_>,
    ) -> Result<(), Fault> {
        let to = self.exchange_destination(id, unbind.destination);
        let wait = self.unbind(id, to, unbind.source, unbind.routing_key, &unbind.arguments)?;
        if !unbind.no_wait {
            self.answer(id, number, wait, &exchange::UnbindOk {});
        }
        Ok(())
    }

    fn exchange_destination(&self, id: ConnectionId, name: ShortStr<'_>) -> Result<Destination, Fault> {
        let name = name_of(name);
        if name.is_empty() {
            return Err(not_on_default());
        }
        let exchanges = &self.state.vhosts[self.peer(id).vhost].exchanges;
        let found = exchanges.get_key_value(name).map(|(name, _)| Destination::Exchange(Arc::clone(name)));
        found.ok_or_else(|| Fault::no("exchange", name))
    }

    pub(super) fn on_queue_bind(
        &mut self,
        id: ConnectionId,
        number: u16,
        bind: &queue::Bind<'_>,
    ) -> Result<(), Fault> {
        let queue = self.queue_for(id, number, bind.queue)?;
        let key = self.key_for(id, number, bind.queue, bind.routing_key);
        let key = ShortStr::new(&key).unwrap_or_default();
        let wait = self.bind(id, Destination::Queue(queue), bind.exchange, key, &bind.arguments)?;
        if !bind.no_wait {
            self.answer(id, number, wait, &queue::BindOk {});
        }
        Ok(())
    }

    pub(super) fn on_queue_unbind(
        &mut self,
        id: ConnectionId,
        number: u16,
        unbind: &queue::Unbind<'_>,
    ) -> Result<(), Fault> {
        let to = self.queue_for(id, number, unbind.queue).map(Destination::Queue);
        let wait = self.unbind(id, to, unbind.exchange, unbind.routing_key, &unbind.arguments)?;
        self.answer(id, number, wait, &queue::UnbindOk {});
        Ok(())
    }

    /// Where neither queue nor key is named, the key is the name of the last declared queue (§1.7.2.3).
    fn key_for(&self, id: ConnectionId, number: u16, queue: ShortStr<'_>, key: ShortStr<'_>) -> Box<[u8]> {
        let last = self.channel(id, number).and_then(|channel| channel.last_queue.as_deref());
        match last.filter(|_| queue.is_empty() && key.is_empty()) {
            Some(name) => name.as_bytes().into(),
            None => key.as_bytes().into(),
        }
    }

    fn bind(
        &mut self,
        id: ConnectionId,
        to: Destination,
        source: ShortStr<'_>,
        key: ShortStr<'_>,
        table: &Table,
    ) -> Result<Lsn, Fault> {
        let (vhost, binding) = self.binding(id, source, key, table)?;
        let kind = self.state.exchange(vhost, &binding.source).map(|exchange| exchange.spec.kind);
        if kind == Some(ExchangeKind::Headers) {
            Pattern::check(table).map_err(Fault::precondition)?;
        }
        let (bound, changed) = self.bindings_of(vhost, &to, &binding);
        if bound {
            return Ok(changed);
        }
        let vhost = self.state.vhosts[vhost].name.clone();
        let bound = Record::Topology(Topology::Bound { vhost, to, binding });
        self.check_disk(bound.is_durable(&self.state))?;
        Ok(self.commit(bound))
    }

    fn unbind(
        &mut self,
        id: ConnectionId,
        to: Result<Destination, Fault>,
        source: ShortStr<'_>,
        key: ShortStr<'_>,
        table: &Table,
    ) -> Result<Lsn, Fault> {
        let found = to.and_then(|to| Ok((to, self.binding(id, source, key, table)?)));
        let (to, (vhost, binding)) = match found {
            // As in RabbitMQ what is not there is unbound with success.
            Err(fault) if fault.code == ReplyCode::NotFound => return Ok(self.amqp.last_deletion),
            found => found?,
        };
        let (bound, changed) = self.bindings_of(vhost, &to, &binding);
        if !bound {
            return Ok(changed);
        }
        let source = Arc::clone(&binding.source);
        let vhost_name = self.state.vhosts[vhost].name.clone();
        let lsn = self.commit(Record::Topology(Topology::Unbound { vhost: vhost_name, to, binding }));
        self.unused_exchange_goes(vhost, &source);
        Ok(lsn)
    }

    fn binding(
        &self,
        id: ConnectionId,
        source: ShortStr<'_>,
        key: ShortStr<'_>,
        table: &Table,
    ) -> Result<(usize, Binding), Fault> {
        let vhost = self.peer(id).vhost;
        let name = name_of(source);
        if name.is_empty() {
            return Err(not_on_default());
        }
        let exchanges = &self.state.vhosts[vhost].exchanges;
        let (source, _) = exchanges.get_key_value(name).ok_or_else(|| Fault::no("exchange", name))?;
        let (source, key) = (Arc::clone(source), key.as_bytes().into());
        Ok((vhost, Binding { source, key, arguments: encoded_table(table) }))
    }

    /// Whether the destination has the binding, and the record that last changed either end.
    fn bindings_of(&self, vhost: usize, to: &Destination, binding: &Binding) -> (bool, Lsn) {
        let source = self.state.exchange(vhost, &binding.source).map_or(Lsn::NONE, |source| source.changed);
        let found = match to {
            Destination::Queue(queue) => self.state.declared(*queue).map(|d| (&d.bindings, d.changed)),
            Destination::Exchange(name) => self.state.exchange(vhost, name).map(|e| (&e.bindings, e.changed)),
        };
        found.map_or((false, source), |(bindings, changed)| (bindings.contains(binding), changed.max(source)))
    }

    pub(super) fn on_queue_declare(
        &mut self,
        id: ConnectionId,
        number: u16,
        declare: &queue::Declare<'_>,
    ) -> Result<(), Fault> {
        if self.is_reply_address(declare.queue.as_bytes()) {
            let (queue, message_count, consumer_count) = (declare.queue, 0, 1);
            if !declare.no_wait {
                let ok = queue::DeclareOk { queue, message_count, consumer_count };
                self.answer(id, number, Lsn::NONE, &ok);
            }
            return Ok(());
        }
        let vhost = self.peer(id).vhost;
        let name: Arc<str> = match (declare.queue.is_empty(), declare.passive) {
            (true, false) => self.generated_name().into(),
            (true, true) => {
                match self.channel(id, number).and_then(|channel| channel.last_queue.as_deref()) {
                    Some(last) => last.into(),
                    None => return Err(Fault::new(ReplyCode::NotFound, "no previously declared queue")),
                }
            }
            (false, _) => name_of(declare.queue).into(),
        };
        let known = self.state.vhosts[vhost].queues.get(&*name).copied().filter(|_| !is_hidden(&name));
        let (queue, wait) = match known {
            None if declare.passive => return Err(Fault::no("queue", &name)),
            Some(queue) => {
                self.check_owner(id, queue, &name)?;
                if !declare.passive {
                    self.same_queue(&name, queue, declare)?;
                }
                (queue, self.state.declared(queue).map_or(Lsn::NONE, |declared| declared.changed))
            }
            None => {
                if !declare.queue.is_empty() {
                    check_new_name("queue", &name)?;
                }
                self.declare_new_queue(id, vhost, &name, declare)?
            }
        };
        self.touch_queue(queue);
        if let Some(channel) = self.channel_mut(id, number) {
            channel.last_queue = Some((&*name).into());
        }
        if !declare.no_wait {
            self.serve_if_listed(queue);
            let serving = self.serving_mut(queue);
            let consumer_count = u32::try_from(serving.consumers.len()).unwrap_or(u32::MAX);
            let given_out = serving.given_out;
            let ready = self.state.message_count(queue).saturating_sub(given_out);
            let message_count = u32::try_from(ready).unwrap_or(u32::MAX);
            let queue = ShortStr::new(name.as_bytes()).unwrap_or_default();
            self.answer(id, number, wait, &queue::DeclareOk { queue, message_count, consumer_count });
        }
        Ok(())
    }

    fn declare_new_queue(
        &mut self,
        id: ConnectionId,
        vhost: usize,
        name: &Arc<str>,
        declare: &queue::Declare<'_>,
    ) -> Result<(QueueId, Lsn), Fault> {
        let checked = QueueArguments::check(&declare.arguments).map_err(|why| about_queue(name, &why))?;
        if checked.quorum && (!declare.durable || declare.exclusive || declare.auto_delete) {
            let why =
                "invalid property for a quorum queue: it must be durable, not exclusive, not auto-delete";
            return Err(about_queue(name, why));
        }
        let spec = QueueSpec {
            durable: is_durable(declare),
            exclusive: declare.exclusive,
            auto_delete: declare.auto_delete,
            lanes: u16::from(checked.max_priority) + 1,
            arguments: encoded_table(&declare.arguments),
        };
        self.check_disk(spec.survives())?;
        let queue = self.state.next_queue();
        let vhost = self.state.vhosts[vhost].name.clone();
        let declared = Topology::QueueDeclared { vhost, name: Arc::clone(name), queue, spec };
        let lsn = self.commit(Record::Topology(declared));
        if declare.exclusive
            && let Some(peer) = self.peer_mut(id)
        {
            peer.exclusive.insert(queue);
        }
        Ok((queue, lsn))
    }

    /// What is declared again must be what is there.
    fn same_queue(&self, name: &str, queue: QueueId, declare: &queue::Declare<'_>) -> Result<(), Fault> {
        let Some(declared) = self.state.declared(queue) else { return Ok(()) };
        let spec = &declared.spec;
        if declare.exclusive != spec.exclusive {
            return Err(Fault::new(
                ReplyCode::ResourceLocked,
                format!(
                    "cannot obtain exclusive access to locked queue '{name}' in vhost '/'. It could be originally \
                     declared on another connection or the exclusive property value does not match that of the \
                     original declaration."
                ),
            ));
        }
        QueueArguments::check(&declare.arguments).map_err(|why| about_queue(name, &why))?;
        let flags = [
            ("durable", is_durable(declare), spec.durable),
            ("auto_delete", declare.auto_delete, spec.auto_delete),
        ];
        same_flags("queue", name, &flags)?;
        let before = Table::decode(&spec.arguments).unwrap_or_default();
        let difference = arguments::difference(&before, &declare.arguments);
        difference.map_or(Ok(()), |difference| Err(difference.fault("queue", name)))
    }

    fn generated_name(&mut self) -> String {
        let name = self.amqp.next_name();
        format!("amq.gen-{:016x}-{name}", self.seed.client_id_key())
    }

    /// What would have to be recorded is refused on a full disk: what space is left is for acknowledgements, and for what makes
    /// room.
    fn check_disk(&self, durable: bool) -> Result<(), Fault> {
        match durable && self.log.is_full() {
            true => Err(Fault { hard: false, ..Fault::new(ReplyCode::ResourceError, "the disk is full") }),
            false => Ok(()),
        }
    }
}

/// An exclusive queue goes with its connection, so it is never durable, as in RabbitMQ.
fn is_durable(declare: &queue::Declare<'_>) -> bool {
    declare.durable && !declare.exclusive
}

fn not_on_default() -> Fault {
    Fault::refused("operation not permitted on the default exchange")
}

fn about_queue(name: &str, why: &str) -> Fault {
    Fault::precondition(format!("{why} (queue '{name}' in vhost '/')"))
}

/// Names that begin with "amq." are the server's (§1.7.2.1); carriage returns and line feeds are in none.
fn check_new_name(what: &str, name: &str) -> Result<(), Fault> {
    if name.starts_with("amq.") {
        let text = format!("{what} name '{name}' contains reserved prefix 'amq.*'");
        return Err(Fault::refused(text));
    }
    match name == "\u{fffd}" {
        true => Err(Fault::precondition(format!("the {what} name is not UTF-8"))),
        false => Ok(()),
    }
}

fn exchange_spec(declare: &exchange::Declare<'_>) -> Result<ExchangeSpec, Fault> {
    let name = name_of(declare.exchange);
    let about = |why: String| Fault::precondition(format!("{why} (exchange '{name}' in vhost '/')"));
    ExchangeArguments::check(&declare.arguments).map_err(about)?;
    let kind_name = name_of(declare.kind);
    let delays = kind_name == DELAYED;
    let delayed = declare.arguments.get("x-delayed-type").map(|kind| kind.as_str().unwrap_or_default());
    let kind = match (delays, delayed) {
        (false, _) => ExchangeKind::named(kind_name),
        (true, Some(kind)) => ExchangeKind::named(kind),
        (true, None) => {
            return Err(about("invalid argument, 'x-delayed-type' must be an existing exchange type".into()));
        }
    };
    let Some(kind) = kind else {
        let unknown = delayed.unwrap_or(kind_name);
        return Err(Fault::new(ReplyCode::CommandInvalid, format!("unknown exchange type '{unknown}'")));
    };
    Ok(ExchangeSpec {
        kind,
        durable: declare.durable,
        auto_delete: declare.auto_delete,
        internal: declare.internal,
        delays,
        arguments: encoded_table(&declare.arguments),
    })
}

/// Flags as they were received and as they are, by name.
fn same_flags(what: &str, name: &str, flags: &[(&str, bool, bool)]) -> Result<(), Fault> {
    let differs = flags.iter().find(|(_, received, current)| received != current);
    differs.map_or(Ok(()), |(flag, received, current)| {
        let (received, current) = (format!("'{received}'"), format!("'{current}'"));
        Err(arguments::inequivalent(flag, what, name, &received, &current))
    })
}

fn same_exchange(
    name: &str,
    known: &ExchangeSpec,
    wanted: &ExchangeSpec,
    table: &Table,
) -> Result<(), Fault> {
    if (known.kind, known.delays) != (wanted.kind, wanted.delays) {
        let (received, current) = (wanted.kind.name(), known.kind.name());
        let (received, current) = (format!("'{received}'"), format!("'{current}'"));
        return Err(arguments::inequivalent("type", "exchange", name, &received, &current));
    }
    let flags = [
        ("durable", wanted.durable, known.durable),
        ("auto_delete", wanted.auto_delete, known.auto_delete),
        ("internal", wanted.internal, known.internal),
    ];
    same_flags("exchange", name, &flags)?;
    let before = Table::decode(&known.arguments).unwrap_or_default();
    let difference = arguments::difference(&before, table);
    difference.map_or(Ok(()), |difference| Err(difference.fault("exchange", name)))
}
