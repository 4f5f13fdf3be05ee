//! Names of nodes and directed links, and their numbers in the network.

use std::collections::BTreeMap;
use std::sync::Arc;

use perhop_core::NodeId;
use perhop_net::PortId;

use crate::build::BuildError;
use crate::network::NetworkPlan;

/// Names of the nodes, directed links, radio channels and tunnels of a network.
#[derive(Clone, Debug, Default)]
pub struct Names {
    nodes: Arc<[String]>,
    links: Arc<[String]>,
    channels: Arc<[String]>,
    tunnels: Arc<[String]>,
    ids: BTreeMap<String, NodeId>,
    ports: BTreeMap<String, PortId>,
}

impl Names {
    /// Returns the node with this name.
    ///
    /// # Errors
    /// [`BuildError::UnknownNode`].
    pub fn node(&self, name: &str) -> Result<NodeId, BuildError> {
        self.ids.get(name).copied().ok_or_else(|| BuildError::UnknownNode(name.into()))
    }

    /// Returns the port that sends into the directed link with this name.
    ///
    /// # Errors
    /// [`BuildError::UnknownLink`].
    pub fn port(&self, name: &str) -> Result<PortId, BuildError> {
        self.ports.get(name).copied().ok_or_else(|| BuildError::UnknownLink(name.into()))
    }

    /// Returns the names of nodes, by number.
    pub fn nodes(&self) -> &Arc<[String]> {
        &self.nodes
    }

    /// Returns the names of directed links and of the devices of tunnels, by port.
    pub fn links(&self) -> &Arc<[String]> {
        &self.links
    }

    /// Returns the names of radio channels, by number.
    pub fn channels(&self) -> &Arc<[String]> {
        &self.channels
    }

    /// Returns the names of tunnels, by number.
    pub fn tunnels(&self) -> &Arc<[String]> {
        &self.tunnels
    }
}

impl NetworkPlan {
    /// Returns the names of nodes, directed links, radio channels and tunnels.
    ///
    /// # Errors
    /// [`BuildError::Twice`] if two nodes, or two directed links or devices, have the same name,
    /// [`BuildError::TooLarge`] if there are too many to be numbered.
    pub fn names(&self) -> Result<Names, BuildError> {
        if self.nodes.len() >= usize::from(u16::MAX) {
            return Err(BuildError::TooLarge("nodes are numbered in 16 bits"));
        }
        let nodes: Arc<[String]> = self.nodes.iter().map(|node| node.name.clone()).collect();
        let ends = self.links.iter().flat_map(|link| &link.ends).map(|end| &end.name);
        let devices = self.tunnels.iter().flat_map(|tunnel| tunnel.devices.iter().flatten());
        let links: Arc<[String]> =
            ends.chain(devices.map(|device| &device.name)).cloned().collect();
        let ids = numbered(&nodes, |number| NodeId(number as u16))?;
        let mut ports = numbered(&links, |number| PortId(number as u32))?;
        ports.retain(|_, port| port.0 < 2 * self.links.len() as u32);
        let channels = self.channels.iter().map(|channel| channel.name.clone()).collect();
        let tunnels = self.tunnels.iter().map(|tunnel| tunnel.name.clone()).collect();
        Ok(Names { nodes, links, channels, tunnels, ids, ports })
    }
}

fn numbered<T>(
    names: &[String],
    id: impl Fn(usize) -> T,
) -> Result<BTreeMap<String, T>, BuildError> {
    let mut ids = BTreeMap::new();
    for (number, name) in names.iter().enumerate() {
        if ids.insert(name.clone(), id(number)).is_some() {
            return Err(BuildError::Twice(name.clone()));
        }
    }
    Ok(ids)
}
