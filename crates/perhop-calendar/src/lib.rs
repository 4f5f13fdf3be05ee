//! The calendar of reservations: the bandwidth that is booked on each link over time, and
//! admission.
//!
//! Times are whole seconds since 1970, intervals half-open: a booking that ends at an instant and
//! one that begins then do not overlap. Rates are bits per second. Admission compares the peak of
//! the booked rates in an interval with the capacity, not the sum of all bookings in it.
//!
//! The calendar is in memory and answers in microseconds; its owner stores reservations durably.

mod calendar;
mod fit;
mod overlaps;
mod paths;
mod span;
mod stored;
mod timeline;

pub use calendar::{Booking, Calendar, LinkSpec, Refusal, Shortage};
pub use fit::{Effort, Fit, Wanted};
pub use overlaps::{Overlaps, PacketSet, Ports, Selector};
pub use paths::{Constraints, Path};
pub use span::Span;
pub use stored::{StoredDirection, StoredPath, StoredReservations, StoredSelector, Unreadable};
pub use timeline::Stretch;
