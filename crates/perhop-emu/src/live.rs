//! What is asked of an emulation, and changed in it, while it runs without an end.

use std::sync::Arc;

use perhop_core::Time;
use perhop_net::{LinkCounters, PortId};
use perhop_plan::{BuildError, Effect, EffectPlan};
use perhop_queue::{Backlog, ClassCounters};

use crate::emulation::Emulation;

/// What a port counts.
#[derive(Clone, Debug)]
pub struct PortReading {
    /// The directed link.
    pub name: String,
    /// What left it.
    pub link: LinkCounters,
    /// What each class before it has done, and what waits there, by name.
    pub classes: Vec<(String, ClassCounters, Backlog)>,
    /// The same of reserved classes.
    pub reserved: Vec<(String, ClassCounters, Backlog)>,
}

impl Emulation {
    /// Changes something now. `seed` decides the random numbers of a queue that is new.
    ///
    /// # Errors
    /// [`BuildError`] if it cannot be done; nothing has changed then.
    pub fn apply(&mut self, effect: &EffectPlan, seed: u64) -> Result<(), BuildError> {
        let effect = Effect::of(effect, Time::ZERO, &self.names, seed)?;
        self.ask(move |running| running.apply(effect));
        Ok(())
    }

    /// Returns the hosts whose devices were taken away.
    pub fn without_device(&mut self) -> Vec<String> {
        let nodes = Arc::clone(self.names.nodes());
        self.ask(move |running| {
            running.hosts.without_device().map(|host| nodes[host.index()].clone()).collect()
        })
    }

    /// What every port has counted by now.
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
