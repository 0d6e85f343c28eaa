//! The class channel (§1.5.2): conversations within a connection.

use super::definition::methods;
use crate::amqp::wire::short_str::ShortStr;

methods! { 20 "channel";
    /// Channel.Open.
    Open = 10 "open" [ShortStr<'_>] {} [];
    /// Channel.Open-Ok.
    OpenOk = 11 "open_ok" [] {} [&[u8]];
    /// Channel.Flow: asks the other side to stop sending content, or to go on.
    Flow = 20 "flow" [] {
        /// Whether to go on.
        active: bool,
    } [];
    /// Channel.Flow-Ok.
    FlowOk = 21 "flow_ok" [] {
        /// What was asked for.
        active: bool,
    } [];
    /// Channel.Close: nothing follows but its answer.
    Close<'a> = 40 "close" [] {
        /// Why.
        reply_code: u16,
        /// Why, in words.
        reply_text: ShortStr<'a>,
        /// The class of the method to blame; 0 if none is.
        class_id: u16,
        /// The method to blame; 0 if none is.
        method_id: u16,
    } [];
    /// Channel.Close-Ok.
    CloseOk = 41 "close_ok" [] {} [];
}
