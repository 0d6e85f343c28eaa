//! Reason codes (MQTT 5 §2.4).

/// Why, in MQTT 5's words: 0x80 and above say that something failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ReasonCode {
    /// It is done.
    Success = 0x00,
    /// Accepted, and nobody is there who gets it.
    NoMatchingSubscribers = 0x10,
    /// There was no such subscription.
    NoSubscriptionExisted = 0x11,
    /// Enhanced authentication goes on.
    ContinueAuthentication = 0x18,
    /// Something failed, and no other code fits.
    UnspecifiedError = 0x80,
    /// The packet cannot be read.
    MalformedPacket = 0x81,
    /// The packet can be read, and breaks a rule.
    ProtocolError = 0x82,
    /// Refused by a setting of this broker.
    ImplementationSpecificError = 0x83,
    /// The version is not spoken here.
    UnsupportedProtocolVersion = 0x84,
    /// The client identifier is not allowed.
    ClientIdentifierNotValid = 0x85,
    /// User name or password are wrong.
    BadUserNameOrPassword = 0x86,
    /// Not allowed to do that.
    NotAuthorized = 0x87,
    /// The broker cannot serve now.
    ServerUnavailable = 0x88,
    /// The broker has too much to do.
    ServerBusy = 0x89,
    /// The broker ends.
    ServerShuttingDown = 0x8b,
    /// The authentication method is not known here, or not the one agreed on.
    BadAuthenticationMethod = 0x8c,
    /// Silent for one and a half times its keep-alive.
    KeepAliveTimeout = 0x8d,
    /// Another connection uses the client identifier.
    SessionTakenOver = 0x8e,
    /// The topic filter is not valid.
    TopicFilterInvalid = 0x8f,
    /// The topic name is not accepted.
    TopicNameInvalid = 0x90,
    /// The packet identifier is in use.
    PacketIdentifierInUse = 0x91,
    /// The packet identifier is not known.
    PacketIdentifierNotFound = 0x92,
    /// More unacknowledged messages than Receive Maximum.
    ReceiveMaximumExceeded = 0x93,
    /// The topic alias is 0, too large, or was never set.
    TopicAliasInvalid = 0x94,
    /// The packet is larger than Maximum Packet Size.
    PacketTooLarge = 0x95,
    /// A bound of this broker is reached.
    QuotaExceeded = 0x97,
}

impl ReasonCode {
    /// Whether it says that something failed.
    pub fn is_failure(self) -> bool {
        self as u8 >= 0x80
    }
}
