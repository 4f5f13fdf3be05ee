//! The calendar of reservations: how much of each link is booked when, and whether there is room
//! for more.
//!
//! Times are whole seconds since 1970, intervals half-open, so that a booking that ends at an
//! instant and one that begins then do not meet. Rates are bits per second. What counts is the
//! peak of what is booked in an interval, not the sum of the bookings that touch it.
//!
//! The calendar is in memory and answers in microseconds; what is durable is up to whoever keeps
//! it.

mod calendar;
mod fit;
mod overlaps;
mod paths;
mod span;
mod stored;
mod timeline;

pub use calendar::{Booking, Calendar, LinkSpec, Refusal, Shortage};
pub use fit::{Effort, Fit, Wanted};
pub use overlaps::{Overlaps, Packets, Ports};
pub use paths::{Constraints, Path};
pub use span::Span;
pub use stored::{StoredPath, StoredReservations, Unreadable};
pub use timeline::Stretch;
