//! Live jobs: traffic between hosts, only some of which are in this process.

use std::fmt;
use std::net::SocketAddr;

use perhop_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allowance::Allowance;

/// Agreement between processes that have different ends of the same flows.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LiveJob {
    /// Secret by which the ends of this run recognise each other.
    pub token: Token,
    /// Entry of each flow, in the order of the job.
    pub flows: Vec<LiveFlow>,
    /// UDP port of the STAMP reflector (RFC 8762) at the destination of each ping, in the order of
    /// the job; `None`, or no entry, for a ping by ICMP. `Traffic` opens no sockets for a ping to a
    /// reflector.
    #[serde(default)]
    pub reflectors: Vec<Option<u16>>,
}

/// Agreement between the ends of a flow.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LiveFlow {
    /// The end that opens connections, or sends the first datagram. An end behind network address
    /// translation (NAT) must be this one, because it cannot be reached.
    pub opens: End,
    /// The server of iperf3 that is one end of the flow, if there is one. The agent at the other
    /// end is a client of that server; `Traffic` opens no sockets for the flow.
    #[serde(default)]
    pub server: Option<Iperf3Server>,
}

/// A server of iperf3 that is an end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Iperf3Server {
    /// The end of the flow that it is.
    pub end: End,
    /// Its address and port.
    pub address: SocketAddr,
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The end that sends data.
    Source,
    /// The end that receives data.
    Destination,
}

/// Sixteen random bytes, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token(#[schemars(with = "String")] pub [u8; Token::SIZE]);

impl Token {
    /// Size in bytes.
    pub const SIZE: usize = 16;
}

impl fmt::Debug for Token {
    /// Writes no digits: a token is a secret of the run.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl TryFrom<String> for Token {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.len() == 2 * Self::SIZE && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(&text, 16).ok().filter(|_| digits);
        let wrong = || format!("a token has {} hexadecimal digits", 2 * Self::SIZE);
        number.map(|number| Self(number.to_be_bytes())).ok_or_else(wrong)
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        format!("{:032x}", u128::from_be_bytes(token.0))
    }
}

/// Limits of the traffic that a [`Traffic`](crate::Traffic) sends, independent of its job.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Duration after the start in which sending is allowed; `None` is no limit.
    pub duration: Option<Duration>,
    /// Limits of it together with all others that have a clone of this.
    pub allowance: Allowance,
}
