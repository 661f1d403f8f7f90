use crate::two::Two;
use vfl_protocol::pb;

pub struct One(Two, pb::Score);
