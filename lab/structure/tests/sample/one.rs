use crate::two::Two;
use vfl_shared::rpc::pb;

pub struct One(Two, pb::Score);
