//! The class connection (§1.4.2.1 ff.): opening, agreeing on limits, closing.

use super::definition::methods;
use crate::amqp::wire::short_str::ShortStr;
use crate::amqp::wire::table::Table;

methods! { 10 "connection";
    /// Connection.Start: what the server can do.
    Start<'a> = 10 "start" [] {
        /// 0.
        version_major: u8,
        /// 9.
        version_minor: u8,
        /// What the server is, with its capabilities.
        server_properties: Table,
        /// Names of security mechanisms with spaces between them.
        mechanisms: &'a [u8],
        /// Names of locales with spaces between them.
        locales: &'a [u8],
    } [];
    /// Connection.Start-Ok: who the client is.
    StartOk<'a> = 11 "start_ok" [] {
        /// What the client is, with its capabilities.
        client_properties: Table,
        /// The security mechanism that it chose.
        mechanism: ShortStr<'a>,
        /// The mechanism's first message.
        response: &'a [u8],
        /// The locale that it chose.
        locale: ShortStr<'a>,
    } [];
    /// Connection.Secure: the mechanism's next message to the client.
    Secure<'a> = 20 "secure" [] {
        /// The message.
        challenge: &'a [u8],
    } [];
    /// Connection.Secure-Ok: the answer to it.
    SecureOk<'a> = 21 "secure_ok" [] {
        /// The answer.
        response: &'a [u8],
    } [];
    /// Connection.Tune: the limits that the server proposes.
    Tune = 30 "tune" [] {
        /// The highest channel; 0 is no limit.
        channel_max: u16,
        /// Bytes of a frame; 0 is no limit.
        frame_max: u32,
        /// Seconds; 0 is none.
        heartbeat_s: u16,
    } [];
    /// Connection.Tune-Ok: the limits that the client wants.
    TuneOk = 31 "tune_ok" [] {
        /// The highest channel; 0 is no limit.
        channel_max: u16,
        /// Bytes of a frame; 0 is no limit.
        frame_max: u32,
        /// Seconds; 0 is none.
        heartbeat_s: u16,
    } [];
    /// Connection.Open: into a virtual host.
    Open<'a> = 40 "open" [] {
        /// Its name.
        virtual_host: ShortStr<'a>,
    } [ShortStr<'_>, bool];
    /// Connection.Open-Ok.
    OpenOk = 41 "open_ok" [] {} [ShortStr<'_>];
    /// Connection.Close: nothing follows but its answer.
    Close<'a> = 50 "close" [] {
        /// Why.
        reply_code: u16,
        /// Why, in words.
        reply_text: ShortStr<'a>,
        /// The class of the method to blame; 0 if none is.
        class_id: u16,
        /// The method to blame; 0 if none is.
        method_id: u16,
    } [];
    /// Connection.Close-Ok.
    CloseOk = 51 "close_ok" [] {} [];
    /// Connection.Blocked (RabbitMQ): publishes are not taken for now.
    Blocked<'a> = 60 "blocked" [] {
        /// Why, in words.
        reason: ShortStr<'a>,
    } [];
    /// Connection.Unblocked (RabbitMQ): publishes are taken again.
    Unblocked = 61 "unblocked" [] {} [];
    /// Connection.Update-Secret (RabbitMQ): new credentials in place of what expires.
    UpdateSecret<'a> = 70 "update_secret" [] {
        /// The credentials.
        new_secret: &'a [u8],
        /// Why, in words.
        reason: ShortStr<'a>,
    } [];
    /// Connection.Update-Secret-Ok (RabbitMQ).
    UpdateSecretOk = 71 "update_secret_ok" [] {} [];
}
