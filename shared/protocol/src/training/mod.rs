//! Messages of a training.

pub mod computation;
pub mod messages;
mod wire;

pub use wire::{CommandStream, Conversation, ReplySender};
