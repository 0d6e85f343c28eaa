//! What a run relies on, checked before it begins.

use super::{Action, BrokerSettings, Scenario, configured};
use crate::fault::Fault;
use crate::model::matches;
use vowmq_core::mqtt::topic::TopicFilter;

/// What the clients of one scenario may do at most, all together.
const OPERATIONS_MAX: u64 = 1_000_000;

impl Scenario {
    /// Checks what a run relies on.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.configuration.is_some() && self.broker != BrokerSettings::default() {
            return Err("a scenario has `configuration` or `broker`, not both".to_owned());
        }
        if let Some(text) = &self.configuration {
            configured(text)?;
        }
        if self.clients.len() > 64 {
            return Err(format!("{} clients; 64 are possible", self.clients.len()));
        }
        let mut limit = usize::MAX;
        for settings in self.all_settings() {
            settings.check().map_err(|error| error.to_string())?;
            limit = limit.min(settings.limits.packet_bytes);
            // Connections that broke are open at the broker for a while beside the new ones.
            if settings.limits.connections < 4 * self.clients.len() {
                let (most, clients) = (settings.limits.connections, self.clients.len());
                return Err(format!(
                    "limits.connections is {most}, too few for {clients} clients that come back after every break"
                ));
            }
        }
        for (index, client) in self.clients.iter().enumerate() {
            if self.clients[..index].iter().any(|other| other.id == client.id) {
                return Err(format!("two clients are called {:?}", client.id));
            }
            if client.id.is_empty() {
                return Err("a client has no id".to_owned());
            }
            if let Some(rule) = client.broken_rule() {
                return Err(format!("client {:?}: {rule}", client.id));
            }
            for operation in &client.operations {
                if let Err(rule) = operation.action.check(limit) {
                    let at_us = operation.at_us;
                    return Err(format!("client {:?}, operation at {at_us} µs: {rule}", client.id));
                }
            }
        }
        self.check_groups()?;
        if self.operations() > OPERATIONS_MAX {
            return Err(format!("{} operations; {OPERATIONS_MAX} are possible", self.operations()));
        }
        let unknown = |fault: &&Fault| fault.client().is_some_and(|client| client >= self.clients.len());
        match self.faults.iter().find(unknown) {
            Some(fault) => Err(format!("there is no such client: {fault:?}")),
            None => Ok(()),
        }
    }

    /// What goes to a member of a group goes to it as to nobody else: no other filter of its own may match the same topics.
    fn check_groups(&self) -> Result<(), String> {
        let actions = || self.clients.iter().flat_map(|client| &client.operations).map(|at| &at.action);
        let published = actions().filter_map(|action| match action {
            Action::Publish { topic, .. } => Some(topic.as_str()),
            _ => None,
        });
        let wills = self.clients.iter().filter_map(|client| client.will.as_ref());
        let topics: Vec<&str> = published.chain(wills.map(|will| will.topic.as_str())).collect();
        for client in &self.clients {
            let mut filters: Vec<&str> = client.filters().collect();
            filters.sort_unstable();
            filters.dedup();
            for shared in filters.iter().filter(|filter| shared_filter(filter).is_some()) {
                let others = filters.iter().filter(|filter| *filter != shared);
                let both = |filter: &&&str| {
                    topics.iter().any(|topic| is_for(shared, topic) && is_for(filter, topic))
                };
                if let Some(other) = others.clone().find(both) {
                    let id = &client.id;
                    return Err(format!("client {id:?}: {shared:?} and {other:?} match the same topics"));
                }
            }
        }
        Ok(())
    }
}

impl super::ClientProgram {
    /// All filters that it ever subscribes to.
    pub(super) fn filters(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().flat_map(|at| match &at.action {
            Action::Subscribe { filter, more, .. } => std::iter::once(filter.as_str())
                .chain(more.iter().map(|(filter, _)| filter.as_str()))
                .collect(),
            _ => Vec::new(),
        })
    }
}

/// The filter in a shared subscription.
pub(crate) fn shared_filter(filter: &str) -> Option<&str> {
    filter.strip_prefix("$share/").and_then(|rest| rest.split_once('/')).map(|(_, filter)| filter)
}

fn is_for(filter: &str, topic: &str) -> bool {
    matches(shared_filter(filter).unwrap_or(filter), topic)
}

impl Action {
    /// The rule that a client would break by it, if it breaks one. `packet_bytes` is the broker's limit.
    fn check(&self, packet_bytes: usize) -> Result<(), String> {
        let qos_is_one = |qos: u8| if qos <= 2 { Ok(()) } else { Err("qos is 0, 1 or 2".to_owned()) };
        let filter_is_one = |filter: &str| match TopicFilter::new(filter) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{filter:?} is no topic filter")),
        };
        match self {
            Action::Publish { topic, size, qos, .. } => {
                let bytes = *size as usize + topic.len() + 16;
                if topic.is_empty() || topic.contains(['+', '#']) {
                    return Err(format!("{topic:?} is no topic to publish to"));
                }
                if bytes > packet_bytes {
                    return Err(format!("{bytes} bytes; limits.packet_bytes is {packet_bytes}"));
                }
                qos_is_one(*qos)
            }
            Action::Subscribe { filter, qos, more } => {
                let all =
                    std::iter::once((filter, qos)).chain(more.iter().map(|(filter, qos)| (filter, qos)));
                all.into_iter().try_for_each(|(filter, qos)| filter_is_one(filter).and(qos_is_one(*qos)))
            }
            Action::Unsubscribe { filter, more } => {
                std::iter::once(filter).chain(more).try_for_each(|filter| filter_is_one(filter))
            }
            _ => Ok(()),
        }
    }
}
