//! An auditor's work: audits of a deployment, the report with its verdicts, recommendations of a
//! policy, and the dashboard.

pub mod audit;
mod audit_config;
pub mod client;
pub mod dashboard;
pub mod recommend;
pub mod report;

pub use audit_config::metrics::{measured, metrics_of};
pub use audit_config::{AuditConfig, ConfiguredAudit};
