//! The agents of the nodes.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use serde::{Deserialize, Serialize};

use super::error::LiveError;
use crate::frames;
use crate::key::PublicKey;

/// A node of a live network.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    node: String,
    #[serde(default)]
    agent: Option<AgentEntry>,
    #[serde(default)]
    ping: Option<AddressEntry>,
    #[serde(default)]
    stamp: Option<AddressEntry>,
    #[serde(default)]
    iperf3: Option<AddressEntry>,
}

/// An agent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AgentEntry {
    address: String,
    key: String,
}

/// A host without an agent.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct AddressEntry {
    address: String,
}

/// An agent and the node that it is.
#[derive(Clone, Debug)]
pub struct AgentNode {
    /// The node.
    pub node: String,
    /// Address and port of its control connection.
    pub address: SocketAddr,
    /// Its public key.
    pub key: PublicKey,
}

/// Reads the agents of the nodes from JSON, and resolves their names.
///
/// # Errors
/// [`LiveError`] names the node and what was expected.
pub fn read(json: &str) -> Result<Vec<AgentNode>, LiveError> {
    let entries: Vec<Entry> =
        frames::read(json.as_bytes()).map_err(|error| LiveError::Agents(error.to_string()))?;
    let mut agents: Vec<AgentNode> = Vec::new();
    for Entry { node, agent, ping, stamp, iperf3 } in entries {
        let wrong = |what: &str| LiveError::Agents(format!("{node}: {what}"));
        match (agent, ping, stamp, iperf3) {
            (Some(agent), None, None, None) => {
                if agents.iter().any(|other| other.node == node) {
                    return Err(wrong("two agents; expected one"));
                }
                let key = agent.key.parse().map_err(|error| wrong(&format!("{error}")))?;
                let address = resolve(&node, &agent.address)?;
                agents.push(AgentNode { node, address, key });
            }
            // Their addresses are in the job.
            (None, Some(_), None, None)
            | (None, None, Some(_), None)
            | (None, None, None, Some(_)) => {}
            _ => return Err(wrong("expected one of agent, ping, stamp and iperf3")),
        }
    }
    match agents.is_empty() {
        true => Err(LiveError::Agents("the list is empty; expected at least one".into())),
        false => Ok(agents),
    }
}

fn resolve(node: &str, text: &str) -> Result<SocketAddr, LiveError> {
    let wrong = |error| LiveError::Address { node: node.into(), address: text.into(), error };
    let mut found = text.to_socket_addrs().map_err(wrong)?;
    found.next().ok_or_else(|| wrong(io::Error::other("the name has no address")))
}
