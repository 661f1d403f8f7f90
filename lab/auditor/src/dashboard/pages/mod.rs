//! The pages, which only show what they are given. Nothing here asks a party or opens a file.

mod audit;
mod audits;
mod compare;
mod ledger;
mod model;
mod new;
mod service;
mod watch;

pub(super) use audit::audit;
pub(super) use audits::{AuditList, audits};
pub(super) use compare::compare;
pub(super) use ledger::{RecordSearch, ledger, no_ledger};
pub(super) use model::{PartyAnswers, model};
pub(super) use new::{AuditForm, new};
pub(super) use service::service;
pub(super) use watch::{nothing, stop, watch};
