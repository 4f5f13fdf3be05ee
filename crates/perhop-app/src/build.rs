//! Builds clients from their plans.

use perhop_core::{Duration, Stream, Time};
use thiserror::Error;

use crate::RecordKind;
use crate::client::Client;
use crate::exchanges::{Arrivals, Exchanges};
use crate::plan::*;
use crate::random::{Gaps, Sizes};
use crate::video::Video;
use crate::web::Web;
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
    /// An object of a page that follows a later one.
    #[error("an object of a page can only follow an earlier one")]
    Order,
    /// Bit rates that do not rise.
    #[error("the bit rates of a video must rise from above zero")]
    Ladder,
    /// A buffer that does not hold what playback needs.
    #[error("a video's buffer must hold a segment, and what playback begins with")]
    Buffer,
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
            Self::Web(plan) => web(plan, (start, stop), random("pauses")),
            Self::Video(plan) => video(plan, (start, stop)),
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
    Ok(Client::new(exchanges, limit))
}

fn web(plan: &WebPlan, span: (Time, Time), random: Stream) -> Result<Client, AppError> {
    let sizes = plan.objects.iter().flat_map(|object| [object.request, object.response]);
    if plan.objects.is_empty() || plan.connections == 0 || sizes.min() == Some(0) {
        return Err(AppError::Zero("the number of objects and connections, and a size"));
    }
    let mut before = plan.objects.iter().enumerate();
    if before.any(|(number, object)| object.after.is_some_and(|after| after as usize >= number)) {
        return Err(AppError::Order);
    }
    let hosts = plan.objects.iter().map(|object| usize::from(object.host) + 1).max().unwrap_or(1);
    let each = if plan.multiplexed { 1 } else { usize::from(plan.connections) };
    Ok(Client::new(Web::new(plan, hosts, span, random), hosts * each))
}

fn video(plan: &VideoPlan, span: (Time, Time)) -> Result<Client, AppError> {
    let rises = plan.bitrates.windows(2).all(|two| two[0] < two[1]);
    if plan.bitrates.first().is_none_or(|least| *least == 0) || !rises {
        return Err(AppError::Ladder);
    }
    let none = Duration::ZERO;
    if plan.segment == none || plan.buffer < plan.segment || plan.startup > plan.buffer {
        return Err(AppError::Buffer);
    }
    Ok(Client::new(Video::new(plan, span), 1))
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
