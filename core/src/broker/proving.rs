//! Clients that prove who they are: the driver is asked, and its answer handed to the protocol (see `access`).

use super::Broker;
use crate::access::{Credentials, Exchange, Proving, ProvingStage, Verdict};
use crate::ids::ConnectionId;
use crate::marks::reached;
use crate::output::Output;
use alloc::boxed::Box;
use alloc::string::String;

/// Bytes of names and methods, which clients choose, that are told and logged.
const SHOWN: usize = 40;

impl Broker {
    /// Asks the driver about a client.
    pub(crate) fn ask_driver(&mut self, id: ConnectionId, stage: ProvingStage, credentials: Credentials) {
        let exchange = match &credentials {
            Credentials::Password { .. } => None,
            Credentials::Step { method, .. } => {
                Some(Exchange { method: method.as_str().into(), state: Default::default() })
            }
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.proving = Some(Box::new(Proving::begun(stage, exchange)));
        self.outbox.push(Output::Verify { connection: id, credentials });
    }

    /// The driver has answered.
    pub(super) fn verified(&mut self, id: ConnectionId, verdict: Verdict) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(mut proving) = connection.proving.take_if(|proving| proving.asked) else { return };
        let gone = proving.gone.take();
        if matches!(verdict, Verdict::Refused { .. } | Verdict::UnknownMethod) {
            reached!("login refused");
            self.counters.logins_refused += 1;
        }
        match &proving.stage {
            ProvingStage::Connecting(_) | ProvingStage::Connected => {
                self.verified_mqtt(id, *proving, verdict)
            }
            ProvingStage::Starting(mechanism) => self.verified_amqp(id, mechanism, verdict),
        }
        // What came meanwhile is handled now.
        self.resume_reading(id);
        if let Some(cause) = gone {
            self.closed(id, cause);
        }
    }
}

/// A name or method that a client chose, for a message: its beginning, quoted.
pub(crate) fn shown(text: &str) -> String {
    alloc::format!("{:?}", crate::mqtt::packet::property::beginning(text, SHOWN))
}
