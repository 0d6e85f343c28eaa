//! The class confirm (RabbitMQ): the server acknowledges what is published on the channel.

use super::definition::methods;

methods! { 85 "confirm";
    /// Confirm.Select.
    Select = 10 "select" [] {
        /// Without an answer.
        no_wait: bool,
    } [];
    /// Confirm.Select-Ok.
    SelectOk = 11 "select_ok" [] {} [];
}
