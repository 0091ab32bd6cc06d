//! What the walk asks the system: which module holds an address, and which
//! memory is the stack.

mod module;
mod object;
mod readable;
mod stack;

pub(crate) use module::{BuildId, ModuleInfo};
pub(crate) use object::{init, module_of};
pub(crate) use readable::is_readable;
pub(crate) use stack::StackBounds;
pub(super) use stack::{Reach, locate};
