//! The rules of MQTT that a peer can break, each with its clause and MQTT 5's reason code. All of them close the
//! connection and nothing else [MQTT-4.8.0-1], [MQTT-4.13.1-1].

use super::reason::ReasonCode;

macro_rules! violations {
    ($($(#[$doc:meta])* $name:ident = $clause:literal, $code:ident, $text:literal;)*) => {
        /// A rule that the peer broke.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Violation {
            $(#[doc = $text] $name,)*
        }

        impl Violation {
            /// Every rule, for listings.
            pub const ALL: &'static [Violation] = &[$(Violation::$name),*];

            /// The clause of MQTT 3.1.1 that says so; where only MQTT 5 has the rule, its clause there.
            pub fn clause(self) -> &'static str {
                match self { $(Violation::$name => $clause,)* }
            }

            /// The reason code that MQTT 5 has for it.
            pub fn code(self) -> ReasonCode {
                match self { $(Violation::$name => ReasonCode::$code,)* }
            }

            /// What the peer did, in plain words.
            pub fn text(self) -> &'static str {
                match self { $(Violation::$name => $text,)* }
            }
        }
    };
}

violations! {
    RemainingLengthTooLong = "§2.2.3", MalformedPacket, "the remaining length takes more than four bytes";
    Truncated = "§2.2.3", MalformedPacket, "a field goes beyond the end of its packet";
    TrailingBytes = "§2.2.3", MalformedPacket, "bytes are left after the last field of the packet";
    ReservedPacketType = "§2.2.1", MalformedPacket, "the packet type is reserved";
    PacketOnlyServersSend = "§2.2.1", ProtocolError, "a client sent a packet that only servers send";
    ReservedFlags = "[MQTT-2.2.2-2]", MalformedPacket, "the flags of the fixed header are not as the packet type demands";
    QoSBothBits = "[MQTT-3.3.1-4]", MalformedPacket, "PUBLISH has both QoS bits set";
    DupWithQoS0 = "[MQTT-3.3.1-2]", MalformedPacket, "PUBLISH has DUP set with QoS 0";
    PacketIdZero = "[MQTT-2.3.1-1]", ProtocolError, "the packet identifier is 0";
    Utf8IllFormed = "[MQTT-1.5.3-1]", MalformedPacket, "a string is not well-formed UTF-8";
    Utf8Nul = "[MQTT-1.5.3-2]", MalformedPacket, "a string contains the null character";
    ProtocolName = "[MQTT-3.1.2-1]", UnsupportedProtocolVersion, "CONNECT does not name the protocol \"MQTT\" or \"MQIsdp\"";
    ConnectReservedFlag = "[MQTT-3.1.2-3]", MalformedPacket, "CONNECT has its reserved flag set";
    WillQoSWithoutWill = "[MQTT-3.1.2-13]", MalformedPacket, "CONNECT has a will QoS without a will";
    WillQoSBothBits = "[MQTT-3.1.2-14]", MalformedPacket, "CONNECT has will QoS 3";
    WillRetainWithoutWill = "[MQTT-3.1.2-15]", MalformedPacket, "CONNECT has will retain without a will";
    PasswordWithoutUserName = "[MQTT-3.1.2-22]", MalformedPacket, "CONNECT has a password without a user name";
    NotConnectFirst = "[MQTT-3.1.0-1]", ProtocolError, "the first packet is not CONNECT";
    SecondConnect = "[MQTT-3.1.0-2]", ProtocolError, "a second CONNECT on one connection";
    TopicEmpty = "[MQTT-4.7.3-1]", ProtocolError, "a topic name or filter is empty";
    TopicNameWildcard = "[MQTT-3.3.2-2]", TopicNameInvalid, "a topic name contains a wildcard";
    HashNotLast = "[MQTT-4.7.1-2]", TopicFilterInvalid, "\"#\" in a topic filter is not alone in its level or not last";
    PlusNotAlone = "[MQTT-4.7.1-3]", TopicFilterInvalid, "\"+\" in a topic filter is not alone in its level";
    SubscribeEmpty = "[MQTT-3.8.3-3]", ProtocolError, "SUBSCRIBE without a topic filter";
    SubscribeQoS = "[MQTT-3-8.3-4]", MalformedPacket, "SUBSCRIBE with a QoS byte other than 0, 1 or 2";
    UnsubscribeEmpty = "[MQTT-3.10.3-2]", ProtocolError, "UNSUBSCRIBE without a topic filter";
    AckOfWrongKind = "§4.3", ProtocolError, "an acknowledgement that does not belong to the QoS of its message";
    IntegerTooLong = "MQTT 5 §1.5.5", MalformedPacket, "an integer takes more bytes than it needs, or than four";
    PropertyUnknown = "MQTT 5 §2.2.2", MalformedPacket, "a property has an identifier that does not exist";
    PropertyMisplaced = "MQTT 5 §2.2.2", MalformedPacket, "a property does not belong into its packet";
    PropertyTwice = "MQTT 5 §2.2.2", ProtocolError, "a property is there twice that may be there once";
    PropertyValue = "MQTT 5 §2.2.2", ProtocolError, "a property has a value that it may not have";
    ReasonCodeUnknown = "MQTT 5 §2.4", MalformedPacket, "a reason code that its packet does not have";
    AuthenticationDataAlone = "MQTT 5 §3.1.2.11.10", ProtocolError, "authentication data without an authentication method";
    IdentifierFromClient = "MQTT 5 [MQTT-3.3.4-6]", ProtocolError, "a client sent PUBLISH with a subscription identifier";
    TopicAlias = "MQTT 5 §3.3.2.3.4", TopicAliasInvalid, "a topic alias that is 0 or above the maximum";
    TopicAliasUnknown = "MQTT 5 §3.3.2.3.4", ProtocolError, "a topic alias that was never set, and no topic name";
    ResponseTopic = "MQTT 5 [MQTT-3.3.2-14]", ProtocolError, "a response topic that cannot be a topic name";
    SubscriptionOptions = "MQTT 5 [MQTT-3.8.3-5]", MalformedPacket, "SUBSCRIBE has reserved bits of its options set";
    RetainHandling = "MQTT 5 §3.8.3.1", ProtocolError, "SUBSCRIBE with retain handling 3";
    SharedNoLocal = "MQTT 5 [MQTT-3.8.3-4]", ProtocolError, "No Local on a shared subscription";
    SharedName = "MQTT 5 [MQTT-4.8.2-1]", TopicFilterInvalid, "a shared subscription without a share name or a topic filter";
    SharedNameWildcard = "MQTT 5 [MQTT-4.8.2-2]", TopicFilterInvalid, "a share name with a wildcard";
    ReceiveMaximum = "MQTT 5 [MQTT-3.3.4-7]", ReceiveMaximumExceeded, "more unacknowledged QoS 1 and 2 messages than Receive Maximum";
    SessionExpiryFromZero = "MQTT 5 §3.14.2.2.2", ProtocolError, "DISCONNECT gives a session an expiry that had none";
    OtherThanAuth = "MQTT 5 [MQTT-3.1.2-30]", ProtocolError, "another packet than AUTH or DISCONNECT before CONNACK, with an authentication method in CONNECT";
    AuthWithoutMethod = "MQTT 5 §3.15.2.2.2", ProtocolError, "AUTH without an authentication method";
    AuthOtherMethod = "MQTT 5 [MQTT-4.12.1-1]", ProtocolError, "AUTH with another authentication method than CONNECT";
    AuthOutOfTurn = "MQTT 5 §4.12", ProtocolError, "AUTH where it is not the client's turn, or with a reason code that only servers send";
    UnexpectedAuth = "MQTT 5 §3.15", ProtocolError, "AUTH without an authentication method agreed on in CONNECT";
}
