//! The clocks of a sender and a reflector.

use perhop_measure::{ClockEstimate, ClockEstimator, ClockModel};
use serde::Serialize;

use super::sender::Answer;

/// Use of the errors that both hosts state for their clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StatedErrors {
    /// The hosts state none, or are not trusted to.
    #[default]
    Unused,
    /// They narrow the bound of the offset.
    Used,
    /// The time stamps contradict them, so that they are not used.
    Contradicted,
}

/// Estimate of the reflector's clock from exchanges, and from the errors that both hosts state.
#[derive(Clone, Debug)]
pub struct ClockPair {
    estimator: ClockEstimator,
    trusts: bool,
    stated: StatedErrors,
}

impl ClockPair {
    /// Returns an estimate without exchanges; `trusts` is true if stated errors are used.
    pub fn new(trusts: bool) -> Self {
        let estimator = ClockEstimator::new(ClockModel::default());
        Self { estimator, trusts, stated: StatedErrors::Unused }
    }

    /// Adds the exchange of an answer, and the errors that it states.
    pub fn add(&mut self, answer: &Answer) {
        let resets = self.estimator.resets();
        self.estimator.add(answer.exchange);
        // A clock that is set is wrong before or after, whatever its host states.
        if self.stated == StatedErrors::Used && self.estimator.resets() > resets {
            self.stated = StatedErrors::Contradicted;
        }
        let Some(error) = answer.stated_error.filter(|_| self.trusts) else { return };
        if self.stated != StatedErrors::Contradicted {
            self.stated = match self.estimator.add_stated(answer.exchange.returned, error) {
                true => StatedErrors::Used,
                false => StatedErrors::Contradicted,
            };
        }
    }

    /// Returns the estimate at an instant of the sender's clock; `None` without exchanges.
    pub fn at(&self, at: u64) -> Option<ClockEstimate> {
        self.estimator.at(at)
    }

    /// Returns the number of detected settings of a clock.
    pub fn resets(&self) -> u64 {
        self.estimator.resets()
    }

    /// Returns the use of stated errors.
    pub fn stated(&self) -> StatedErrors {
        self.stated
    }
}
