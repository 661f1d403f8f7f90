//! Three parties in one process: the protocols on many elements, a regression of the size of
//! satellite (3942 records, 36 features and the constant, 6 classes) over 60 epochs, and an epoch of
//! a network.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vfl_mpc::{
    Activation, Family, FixedPoint, Logits, Network, NetworkData, PartyIndex, Regression,
    RegressionData, Session, SharedMatrix, connect_in_memory,
};

const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a computation with three parties.
fn compute(program: impl Fn(&mut Session) + Sync) {
    std::thread::scope(|scope| {
        let program = &program;
        let places = PartyIndex::ALL.into_iter().zip(connect_in_memory(DEADLINE));
        for (party, (next, previous)) in places {
            scope.spawn(move || {
                let session = Session::begin(party, &[0; 32], Box::new(next), Box::new(previous));
                program(&mut session.expect("links in memory"));
            });
        }
    });
}

fn protocols(c: &mut Criterion) {
    let mut group = c.benchmark_group("protocols");
    group.sample_size(10);
    let n = 100_000;
    let numbers = |session: &Session| session.public(&vec![1 << 20; n]);
    group.bench_function("100k products of fixed-point numbers", |b| {
        b.iter(|| {
            compute(|session| {
                let x = numbers(session);
                session.multiply_truncated(&x, &x, 20).expect("links in memory");
            });
        });
    });
    group.bench_function("100k labels of 6 classes", |b| {
        b.iter(|| {
            compute(|session| {
                let classes = vec![numbers(session); 6];
                session.arg_max(&classes).expect("links in memory");
            });
        });
    });
    group.finish();
}

fn release(c: &mut Criterion) {
    let mut group = c.benchmark_group("release");
    group.sample_size(10);
    let n = 20_000;
    group.throughput(Throughput::Elements(n as u64));
    let logits = |session: &Session, k: usize| {
        Logits::new(n, k, session.public(&vec![1 << 40; n * k])).expect("as many as there are")
    };
    for k in [2, 6, 10] {
        group.bench_function(format!("20k labels of {k} classes"), |b| {
            b.iter(|| {
                compute(|session| {
                    let logits = logits(session, k);
                    session.release_label(PartyIndex::FIRST, &logits).expect("links in memory");
                });
            });
        });
        group.bench_function(format!("20k scores of {k} classes to 3 decimals"), |b| {
            b.iter(|| {
                compute(|session| {
                    let logits = logits(session, k);
                    let to = PartyIndex::FIRST;
                    session.release_rounded_scores(to, &logits, 3).expect("links in memory");
                });
            });
        });
    }
    group.finish();
}

fn regression(c: &mut Criterion) {
    let mut group = c.benchmark_group("regression");
    group.sample_size(10);
    let (records, features, classes) = (3942, 37, 6);
    let fixed = FixedPoint::new(20).expect("20 bits");
    // A fifth validates, and training never stops before its end.
    for (name, validation) in
        [("satellite's size, 60 epochs", 0), ("the same, a fifth validates", records / 5)]
    {
        let (epochs, patience) = (60, 60);
        let of = Regression {
            family: Family::Multinomial,
            epochs,
            penalty: 1e-4,
            free: 1,
            blocks: 2,
            validation,
            patience,
            fixed,
        };
        group.bench_function(name, |b| {
            b.iter(|| {
                compute(|session| {
                    let matrix = |columns: usize, value: u64| {
                        let shares = session.public(&vec![value; records * columns]);
                        SharedMatrix::new(records, columns, shares).expect("as many as there are")
                    };
                    let data = RegressionData {
                        features: matrix(features, 1 << 18),
                        labels: matrix(classes, 0),
                    };
                    session.regress(of, &data, &mut |_| true).expect("links in memory");
                });
            });
        });
    }
    group.finish();
}

/// One epoch of J's network (two hidden layers of 8 at each of two parties) at satellite's size, in
/// batches of 64 and of 256.
fn network(c: &mut Criterion) {
    let mut group = c.benchmark_group("network");
    group.sample_size(10);
    let (records, classes) = (3942, 6);
    let fixed = FixedPoint::new(20).expect("20 bits");
    for activation in [Activation::Tanh, Activation::Relu] {
        for batch in [64, 256] {
            let of = Network {
                epochs: 1,
                batch,
                hidden: vec![8, 8],
                activation,
                penalty: 1e-5,
                validation: 0,
                patience: 1,
                fixed,
            };
            group.bench_function(format!("an epoch of {activation:?}, batches of {batch}"), |b| {
                b.iter(|| {
                    compute(|session| {
                        let matrix = |columns: usize, value: u64| {
                            let shares = session.public(&vec![value; records * columns]);
                            SharedMatrix::new(records, columns, shares).expect("as many")
                        };
                        let blocks = vec![matrix(18, 1 << 18), matrix(18, 1 << 18)];
                        let data = NetworkData { blocks, labels: matrix(classes, 0) };
                        let of_party = of.start(&[1; 32], 18, classes);
                        let start = [&of_party[..], &of_party, &[0.0; 6]].concat();
                        let start = session.public(&fixed.encode(&start).expect("in range"));
                        session.train_network(&of, &data, start, &mut |_| true).expect("links");
                    });
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, protocols, release, regression, network);
criterion_main!(benches);
