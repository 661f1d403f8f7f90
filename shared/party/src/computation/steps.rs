//! The steps of a private training at each party, in the order in which all take them.

use nalgebra::DVector;
use vfl_core::model::Parameters;
use vfl_mpc::{
    Link, LinkError, MpcError, Network, NetworkData, PartyIndex, Regression, RegressionData,
    Session, SharedMatrix, Shares, TrainingResult, combine, deal,
};
use vfl_protocol::training::computation::EpochCounts;

use super::model::PrivateModel;
use super::program::{ComputationError, ComputationResult, Links, OwnBlock, Program, Watcher};

/// The largest magnitude of a bias, far beyond those of any training that has not diverged.
const LARGEST_BIAS: f64 = 1e9;

/// A computing party's part of one training.
pub(super) struct Computation<'a> {
    pub(super) program: &'a Program,
    pub(super) session: Session,
    /// The links to the passive parties that do not compute, in their order.
    pub(super) outsiders: Vec<Box<dyn Link>>,
}

impl Computation<'_> {
    /// Shares the data, trains, and opens to each owner its own parameters.
    pub(super) fn run(
        mut self,
        own: Option<&(usize, OwnBlock)>,
        watch: Watcher<'_>,
    ) -> Result<ComputationResult, ComputationError> {
        let program = self.program;
        let (n, k) = (program.records(), program.classes());
        for place in 0..program.blocks().len() {
            if program.owner(place).is_none() && self.outsider_message(place)? != program.context()
            {
                return Err(ComputationError::OtherTraining(place));
            }
        }
        let block = own.map(|(place, block)| (*place, &block.values[..]));
        let mut blocks = Vec::with_capacity(program.blocks().len());
        for (place, d) in program.blocks().iter().enumerate() {
            blocks.push(self.input(place, block, n * d)?);
        }
        let labels = own.and_then(|(_, block)| block.labels.as_deref());
        let labels = self.session.share(PartyIndex::FIRST, labels, n * k)?;
        let labels = SharedMatrix::new(n, k, labels)?;
        let result = match program.model() {
            PrivateModel::Regression { regression, .. } => {
                self.regress(*regression, blocks, labels, watch)?
            }
            PrivateModel::Networks { network, .. } => {
                let start = own.map(|(place, block)| (*place, &block.start[..]));
                self.train_networks(network, (blocks, labels), start, watch)?
            }
        };
        let TrainingResult { weights, epochs, best_epoch } = result;
        let epochs = EpochCounts { epochs: epochs as u32, best_epoch: best_epoch as u32 };
        let parameters = self.open(own, weights)?;
        Ok(ComputationResult { epochs, parameters })
    }

    /// Trains a regression. The weights are those of feature after feature, and of the
    /// constant in the end.
    fn regress(
        &mut self,
        regression: Regression,
        blocks: Vec<Shares>,
        labels: SharedMatrix,
        watch: Watcher<'_>,
    ) -> Result<TrainingResult<Shares>, ComputationError> {
        let (program, n) = (self.program, self.program.records());
        let empty = self.session.public(&[]);
        let columns = blocks.iter().fold(empty, |all, block| all.concat(block));
        drop(blocks);
        let ones = program.fixed().encode(&regression.prepare(&vec![1.0; n], n))?;
        let columns = columns.concat(&self.session.public(&ones));
        let width = program.blocks().iter().sum::<usize>() + 1;
        let features = SharedMatrix::new(n, width, columns)?;
        let data = RegressionData { features, labels };
        let TrainingResult { weights, epochs, best_epoch } =
            self.session.regress(regression, &data, watch)?;
        let weights = weights.transpose().into_shares();
        Ok(TrainingResult { weights, epochs, best_epoch })
    }

    /// Trains networks from the first parameters that each owner shares.
    fn train_networks(
        &mut self,
        network: &Network,
        (blocks, labels): (Vec<Shares>, SharedMatrix),
        own: Option<(usize, &[u64])>,
        watch: Watcher<'_>,
    ) -> Result<TrainingResult<Shares>, ComputationError> {
        let (program, n) = (self.program, self.program.records());
        let mut start = self.session.public(&[]);
        for place in 0..program.blocks().len() {
            start = start.concat(&self.input(place, own, program.own_count(place))?);
        }
        // The common bias begins at 0.
        let start = start.concat(&self.session.public(&vec![0; program.classes()]));
        let blocks = blocks.into_iter().zip(program.blocks());
        let blocks = blocks.map(|(block, d)| SharedMatrix::new(n, *d, block));
        let data = NetworkData { blocks: blocks.collect::<Result<_, _>>()?, labels };
        Ok(self.session.train_network(network, &data, start, watch)?)
    }

    /// Takes the shares of `count` numbers of the owner at `place`. `own` has this party's place
    /// and numbers.
    fn input(
        &mut self,
        place: usize,
        own: Option<(usize, &[u64])>,
        count: usize,
    ) -> Result<Shares, ComputationError> {
        let Some(owner) = self.program.owner(place) else {
            let message = self.outsider_message(place)?;
            let dealt = self.session.shares_dealt(&message, count);
            return dealt.map_err(|error| {
                let error = LinkError::Transport(error.to_string());
                ComputationError::Outsider { place, error }
            });
        };
        let own = own.filter(|(own, _)| *own == place).map(|(_, values)| values);
        Ok(self.session.share(owner, own, count)?)
    }

    /// Returns the link to the passive party whose data has this place.
    fn outsider(&mut self, place: usize) -> Result<&mut Box<dyn Link>, ComputationError> {
        let before = (1..place).filter(|place| self.program.owner(*place).is_none());
        self.outsiders.get_mut(before.count()).ok_or(ComputationError::NoLink)
    }

    fn outsider_message(&mut self, place: usize) -> Result<Vec<u8>, ComputationError> {
        let received = self.outsider(place)?.receive();
        received.map_err(|error| ComputationError::Outsider { place, error })
    }

    /// Opens each owner's weights to it. Centred features come with a bias: passive owners give
    /// theirs back as shares, and the active party learns the sum.
    fn open(
        &mut self,
        own: Option<&(usize, OwnBlock)>,
        mut weights: Shares,
    ) -> Result<Option<Parameters>, ComputationError> {
        let (program, k) = (self.program, self.program.classes());
        let mut opened = None;
        for place in 0..program.blocks().len() {
            let (block, rest) = weights.split_at(program.own_count(place));
            weights = rest;
            if let Some(owner) = program.owner(place) {
                opened = opened.or(self.session.open_to(owner, &block)?);
            } else {
                let message = self.session.reveal(&block)?;
                let sent = self.outsider(place)?.send(message);
                sent.map_err(|error| ComputationError::Outsider { place, error })?;
            }
        }
        let unit = own.map(|(_, block)| block.unit);
        let own = match (own, opened) {
            (Some((place, block)), Some(opened)) => {
                Some((*place, program.own_weights(block, &opened, *place)?))
            }
            _ => None,
        };
        let bias = match &own {
            Some((place, own)) => Some((*place, program.encode_bias(&own.offset)?)),
            None => None,
        };
        let bias = bias.as_ref().map(|(place, values)| (*place, &values[..]));
        // What is left of the weights is that of the constant, or the common bias.
        for place in 1..program.blocks().len() {
            weights = weights.plus(&self.input(place, bias, k)?)?;
        }
        let sum = self.session.open_to(PartyIndex::FIRST, &weights)?;
        let (Some((_, own)), Some(unit)) = (own, unit) else { return Ok(None) };
        let bias = sum.map(|sum| program.decode_bias(&sum) + &own.offset);
        own.with_bias(bias, unit).map(Some).ok_or(ComputationError::Diverged)
    }
}

impl Program {
    /// Computes at one party, on the thread of the caller. `own` is the party's place and block;
    /// `None` at the coordinator.
    ///
    /// # Errors
    /// [`ComputationError`].
    pub(super) fn run(
        &self,
        links: Links,
        own: Option<(usize, OwnBlock)>,
        watch: Watcher<'_>,
    ) -> Result<ComputationResult, ComputationError> {
        match links {
            Links::Computing { party, next, previous, outsiders } => {
                let session = Session::begin(party, self.context(), next, previous)?;
                Computation { program: self, session, outsiders }.run(own.as_ref(), watch)
            }
            Links::Outside(links) => self.run_outside(links, own.as_ref()),
        }
    }

    /// Takes part as a passive party that does not compute: deals its block, combines its weights,
    /// and deals the bias that comes with them.
    fn run_outside(
        &self,
        mut links: [Box<dyn Link>; 3],
        own: Option<&(usize, OwnBlock)>,
    ) -> Result<ComputationResult, ComputationError> {
        let Some((place, block)) = own else { return Err(ComputationError::NoLink) };
        let context = self.context().to_vec();
        send_all(&mut links, [context.clone(), context.clone(), context])?;
        send_all(&mut links, deal(&block.values))?;
        if let PrivateModel::Networks { .. } = self.model() {
            send_all(&mut links, deal(&block.start))?;
        }
        let mut messages = Vec::with_capacity(3);
        for (link, party) in links.iter_mut().zip(PartyIndex::ALL) {
            messages.push(link.receive().map_err(|error| MpcError::Link { party, error })?);
        }
        let [first, second, third] = &messages[..] else { return Err(ComputationError::NoLink) };
        let opened = combine([first, second, third], self.own_count(*place))?;
        let own = self.own_weights(block, &opened, *place)?;
        send_all(&mut links, deal(&self.encode_bias(&own.offset)?))?;
        let parameters = own.with_bias(None, block.unit).ok_or(ComputationError::Diverged)?;
        let parameters = Some(parameters);
        Ok(ComputationResult { epochs: EpochCounts::default(), parameters })
    }

    /// Encodes a bias in the unit of the constant's weight.
    fn encode_bias(&self, bias: &DVector<f64>) -> Result<Vec<u64>, ComputationError> {
        let unit = self.fixed().unit() * self.scale();
        let encoded = |value: &f64| match value.abs() <= LARGEST_BIAS {
            true => Ok(((value / unit).round() as i64) as u64),
            false => Err(ComputationError::Diverged),
        };
        bias.iter().map(encoded).collect()
    }

    fn decode_bias(&self, values: &[u64]) -> DVector<f64> {
        DVector::from_vec(self.fixed().decode(values)) * self.scale()
    }
}

pub(super) fn send_all(
    links: &mut [Box<dyn Link>; 3],
    messages: [Vec<u8>; 3],
) -> Result<(), MpcError> {
    for ((link, message), party) in links.iter_mut().zip(messages).zip(PartyIndex::ALL) {
        link.send(message).map_err(|error| MpcError::Link { party, error })?;
    }
    Ok(())
}
