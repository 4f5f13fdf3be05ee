//! Readings and changes of an emulation while it runs.

use std::sync::Arc;

use perhop_core::Time;
use perhop_net::{LinkCounters, PortId};
use perhop_plan::{BuildError, Effect, EffectPlan};
use perhop_queue::{Backlog, ClassCounters};

use crate::emulation::Emulation;

/// Counters of a port.
#[derive(Clone, Debug)]
pub struct PortReading {
    /// Name of the directed link.
    pub name: String,
    /// Counters of the link.
    pub link: LinkCounters,
    /// Counters and backlog of each class before it, by name.
    pub classes: Vec<(String, ClassCounters, Backlog)>,
    /// Counters and backlog of each reserved class, by name.
    pub reserved: Vec<(String, ClassCounters, Backlog)>,
}

impl Emulation {
    /// Applies a change now. `seed` is the seed of random numbers of a new queue.
    ///
    /// # Errors
    /// [`BuildError`] if the change is invalid; nothing has changed then.
    pub fn apply(&mut self, effect: &EffectPlan, seed: u64) -> Result<(), BuildError> {
        let effect = Effect::of(effect, Time::ZERO, &self.names, seed)?;
        self.ask(move |running| running.apply(effect));
        Ok(())
    }

    /// Returns the hosts whose devices were removed.
    pub fn without_device(&mut self) -> Vec<String> {
        let nodes = Arc::clone(self.names.nodes());
        self.ask(move |running| {
            running.hosts.without_device().map(|host| nodes[host.index()].clone()).collect()
        })
    }

    /// Returns the counters of all ports.
    pub fn read(&mut self) -> Vec<PortReading> {
        let links = Arc::clone(self.names.links());
        self.ask(move |running| {
            let network = &running.network;
            let reading = |port: PortId| {
                let (mut classes, mut reserved) = (Vec::new(), Vec::new());
                let root = network.queue(port);
                root.visit(&mut |name, counters, backlog| {
                    if !name.is_empty() {
                        classes.push((name.to_owned(), *counters, backlog));
                    }
                });
                for class in root.reserved() {
                    class.visit(&mut |name, counters, backlog| {
                        reserved.push((name.to_owned(), *counters, backlog));
                    });
                }
                let (name, link) = (links[port.0 as usize].clone(), network.link_counters(port));
                PortReading { name, link, classes, reserved }
            };
            network.ports().map(reading).collect()
        })
    }
}
