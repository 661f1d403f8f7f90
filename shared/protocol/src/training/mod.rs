//! Messages of a training.

pub mod messages;
mod wire;

pub use wire::{CommandStream, Conversation, ReplySender};
