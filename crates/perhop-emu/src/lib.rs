//! Real Linux hosts on perhop's network, in real time.
//!
//! A host is a [`Namespace`]: a network stack of its own, which has no name and ends with the process
//! that made it, however that ends.

mod device;
mod netns;

pub use netns::{Namespace, NamespaceError, UserNamespaceError, enter_user_namespace};
