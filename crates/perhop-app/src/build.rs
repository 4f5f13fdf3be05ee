//! Builds clients from their plans.

use perhop_core::{Stream, Time};
use thiserror::Error;

use crate::RecordKind;
use crate::client::{Client, Kind};
use crate::exchanges::{Arrivals, Exchanges};
use crate::plan::*;
use crate::random::{Gaps, Sizes};
use crate::wire::REQUEST_BYTES;

/// Error: a plan is not possible. A validated scenario does not cause it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AppError {
    /// A number is zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// The mean of a Pareto distribution would be infinite.
    #[error("the shape of a Pareto distribution must be above 1")]
    Shape,
    /// The points of a distribution do not rise to its whole.
    #[error("the points of a distribution of sizes must rise and end with 100%")]
    Table,
}

impl ApplicationPlan {
    /// Builds client `number` of a flow, with random streams of its own. It begins nothing before
    /// `start` and from `stop` on.
    ///
    /// # Errors
    /// [`AppError`] for an impossible value.
    pub fn client(
        &self,
        flow: &str,
        number: usize,
        (start, stop): (Time, Time),
        seed: u64,
    ) -> Result<Client, AppError> {
        let random = |what: &str| Stream::new(seed, &format!("{flow} {number} {what}"));
        match self {
            Self::Transfers(plan) => exchanges(plan, RecordKind::Transfer, (start, stop), random),
            Self::Rpc(plan) => exchanges(plan, RecordKind::Call, (start, stop), random),
        }
    }
}

fn exchanges(
    plan: &ExchangesPlan,
    kind: RecordKind,
    span: (Time, Time),
    random: impl Fn(&str) -> Stream,
) -> Result<Client, AppError> {
    let gaps = |gaps| Gaps::new(gaps, random("arrivals"));
    let arrivals = match plan.arrivals {
        ArrivalsPlan::Open(plan) if plan.mean.as_picos() == 0 => {
            return Err(AppError::Zero("the time between requests"));
        }
        ArrivalsPlan::Open(plan) => Arrivals::Open(gaps(plan)),
        ArrivalsPlan::Closed(plan) => Arrivals::Closed(gaps(plan)),
    };
    if plan.connections == 0 {
        return Err(AppError::Zero("the number of connections"));
    }
    let sizes = [
        Sizes::new(checked(&plan.request)?, REQUEST_BYTES, random("requests")),
        Sizes::new(checked(&plan.response)?, 1, random("responses")),
    ];
    let limit = usize::from(plan.connections);
    let exchanges =
        Exchanges::new(kind, arrivals, span, sizes, plan.server_time, (plan.reuse, limit));
    Ok(Client { kind: Kind::Exchanges(Box::new(exchanges)), connections: limit })
}

/// Checks that sizes can be drawn.
fn checked(plan: &SizesPlan) -> Result<SizesPlan, AppError> {
    match plan {
        SizesPlan::Pareto(_, shape) if *shape <= 1000 => Err(AppError::Shape),
        SizesPlan::Table(points) => {
            let rises = points.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 < two[1].1);
            let whole = points.last().is_some_and(|last| last.1 == 1_000_000_000);
            if rises && whole { Ok(plan.clone()) } else { Err(AppError::Table) }
        }
        _ => Ok(plan.clone()),
    }
}
