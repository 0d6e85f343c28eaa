//! The rules of MQTT that a peer can break, each with its clause. All of them close the connection and nothing
//! else [MQTT-4.8.0-1].

macro_rules! violations {
    ($($(#[$doc:meta])* $name:ident = $clause:literal, $text:literal;)*) => {
        /// A rule that the peer broke.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Violation {
            $(#[doc = $text] $name,)*
        }

        impl Violation {
            /// Every rule, for listings.
            pub const ALL: &'static [Violation] = &[$(Violation::$name),*];

            /// The clause of MQTT 3.1.1 that says so.
            pub fn clause(self) -> &'static str {
                match self { $(Violation::$name => $clause,)* }
            }

            /// What the peer did, in plain words.
            pub fn text(self) -> &'static str {
                match self { $(Violation::$name => $text,)* }
            }
        }
    };
}

violations! {
    RemainingLengthTooLong = "§2.2.3", "the remaining length takes more than four bytes";
    Truncated = "§2.2.3", "a field goes beyond the end of its packet";
    TrailingBytes = "§2.2.3", "bytes are left after the last field of the packet";
    ReservedPacketType = "§2.2.1", "the packet type is reserved";
    PacketOnlyServersSend = "§2.2.1", "a client sent a packet that only servers send";
    ReservedFlags = "[MQTT-2.2.2-2]", "the flags of the fixed header are not as the packet type demands";
    QoSBothBits = "[MQTT-3.3.1-4]", "PUBLISH has both QoS bits set";
    DupWithQoS0 = "[MQTT-3.3.1-2]", "PUBLISH has DUP set with QoS 0";
    PacketIdZero = "[MQTT-2.3.1-1]", "the packet identifier is 0";
    Utf8IllFormed = "[MQTT-1.5.3-1]", "a string is not well-formed UTF-8";
    Utf8Nul = "[MQTT-1.5.3-2]", "a string contains the null character";
    ProtocolName = "[MQTT-3.1.2-1]", "CONNECT does not name the protocol \"MQTT\" or \"MQIsdp\"";
    ConnectReservedFlag = "[MQTT-3.1.2-3]", "CONNECT has its reserved flag set";
    WillQoSWithoutWill = "[MQTT-3.1.2-13]", "CONNECT has a will QoS without a will";
    WillQoSBothBits = "[MQTT-3.1.2-14]", "CONNECT has will QoS 3";
    WillRetainWithoutWill = "[MQTT-3.1.2-15]", "CONNECT has will retain without a will";
    PasswordWithoutUserName = "[MQTT-3.1.2-22]", "CONNECT has a password without a user name";
    NotConnectFirst = "[MQTT-3.1.0-1]", "the first packet is not CONNECT";
    SecondConnect = "[MQTT-3.1.0-2]", "a second CONNECT on one connection";
    TopicEmpty = "[MQTT-4.7.3-1]", "a topic name or filter is empty";
    TopicNameWildcard = "[MQTT-3.3.2-2]", "a topic name contains a wildcard";
    HashNotLast = "[MQTT-4.7.1-2]", "\"#\" in a topic filter is not alone in its level or not last";
    PlusNotAlone = "[MQTT-4.7.1-3]", "\"+\" in a topic filter is not alone in its level";
    SubscribeEmpty = "[MQTT-3.8.3-3]", "SUBSCRIBE without a topic filter";
    SubscribeQoS = "[MQTT-3-8.3-4]", "SUBSCRIBE with a QoS byte other than 0, 1 or 2";
    UnsubscribeEmpty = "[MQTT-3.10.3-2]", "UNSUBSCRIBE without a topic filter";
    AckOfWrongKind = "§4.3", "an acknowledgement that does not belong to the QoS of its message";
}
