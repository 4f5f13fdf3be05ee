//! What is asked of an emulation, and changed in it, while it runs without an end.

use perhop_core::NodeId;
use perhop_net::LinkCounters;
use perhop_plan::{BuildError, Effect, EffectPlan};
use perhop_queue::{Backlog, Counters};

use crate::emulation::Emulation;

/// What a port counts.
#[derive(Clone, Debug)]
pub struct PortReading {
    /// What left it.
    pub link: LinkCounters,
    /// What each class before it has done, and what waits there: the root first, then the classes
    /// depth first.
    pub classes: Vec<(Counters, Backlog)>,
}

impl Emulation {
    /// Changes something now. `seed` decides the random numbers of a queue that is new.
    ///
    /// # Errors
    /// [`BuildError`] if it cannot be done; nothing has changed then.
    pub fn apply(&mut self, effect: &EffectPlan, seed: u64) -> Result<(), BuildError> {
        let effect = effect.clone();
        self.ask(move |running| {
            let links = running.network.ports().count() / 2;
            running.apply(Effect::of(&effect, links, seed)?);
            Ok(())
        })
    }

    /// The hosts whose devices were taken away.
    pub fn without_device(&mut self) -> Vec<NodeId> {
        self.ask(|running| running.hosts.without_device().collect())
    }

    /// What every port has counted by now.
    pub fn read(&mut self) -> Vec<PortReading> {
        self.ask(|running| {
            let network = &running.network;
            let reading = |port| {
                let mut classes = Vec::new();
                network.queue(port).visit(&mut |counters, backlog| {
                    classes.push((*counters, backlog));
                });
                PortReading { link: network.link_counters(port), classes }
            };
            network.ports().map(reading).collect()
        })
    }
}
