use vfl_protocol::pb;

use crate::two::Two;

pub struct One(Two, pb::Score);
