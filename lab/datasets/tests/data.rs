//! The public data sets against their descriptions and the golden rows; the generator against its own definition.
#![allow(clippy::unwrap_used)]

use nalgebra::DMatrix;
use vfl_core::data::normalise::Normalisation;
use vfl_core::data::schema::FeatureKind;
use vfl_datasets::synthetic::{Origin, generate};
use vfl_datasets::{
    DataError, Dataset, DatasetName, DatasetSpec, Encoding, MeanOver, Part, SyntheticFields,
    SyntheticParameters, UnknownDataset, load,
};
use vfl_testing as testing;
use vfl_testing::{data_dir, data_set};

/// The spec of an included set.
fn spec(name: DatasetName) -> DatasetSpec {
    DatasetSpec::new(name, None, 7)
}

fn loaded(spec: &DatasetSpec) -> Dataset {
    load(spec).unwrap_or_else(|e| panic!("{e}"))
}

fn golden(file: &str) -> serde_json::Value {
    testing::golden(file)
}

fn counts(dataset: &Dataset, part: Option<Part>) -> Vec<usize> {
    let mut counts = vec![0; dataset.class_names().len()];
    for (record, &label) in dataset.labels().iter().enumerate() {
        if part.is_none() || dataset.parts().map(|p| p[record]) == part {
            counts[label as usize] += 1;
        }
    }
    counts
}

#[test]
fn sizes_and_classes_are_those_of_the_descriptions() {
    use DatasetName::*;
    // Records, features, and class counts (of the training and the test part where there are parts).
    let cases: [(DatasetName, usize, usize, &[&[usize]]); 8] = [
        (
            Satellite,
            6435,
            36,
            &[&[1072, 479, 961, 415, 470, 1038], &[461, 224, 397, 211, 237, 470]],
        ),
        (Robot, 5456, 24, &[&[826, 2205, 2097, 328]]),
        (Bank, 41188, 19, &[&[36548, 4640]]),
        (Adult, 48842, 14, &[&[24720, 7841], &[12435, 3846]]),
        (
            Pendigits,
            10992,
            16,
            &[
                &[780, 779, 780, 719, 780, 720, 720, 778, 719, 719],
                &[363, 364, 364, 336, 364, 335, 336, 364, 336, 336],
            ],
        ),
        (Grid, 10000, 12, &[&[3620, 6380]]),
        (Credit, 30000, 23, &[&[23364, 6636]]),
        (Drive, 7475, 48, &[&[675, 686, 679, 681, 676, 677, 674, 682, 680, 680, 685]]),
    ];
    for (name, records, features, classes) in cases {
        let Some(spec) = data_set(name, 7, "sizes_and_classes_are_those_of_the_descriptions")
        else {
            continue;
        };
        let set = loaded(&spec);
        assert_eq!((set.records(), set.features().len()), (records, features), "{name}");
        assert_eq!(set.x().shape(), (features, records), "{name}");
        match classes {
            [all] => assert_eq!(counts(&set, None), *all, "{name}"),
            [train, test] => {
                assert_eq!(counts(&set, Some(Part::Train)), *train, "{name}");
                assert_eq!(counts(&set, Some(Part::Test)), *test, "{name}");
                let official: usize = test.iter().sum();
                assert_eq!(set.split().test.len(), official, "{name}");
                assert!(
                    set.split().test.iter().all(|&r| set.parts().unwrap()[r] == Part::Test),
                    "{name}"
                );
            }
            _ => unreachable!(),
        }
        for (row, feature) in set.x().row_iter().zip(set.features()) {
            assert_eq!((row.min(), row.max()), (0.0, 1.0), "{name}, {}", feature.name);
        }
        let split = set.split();
        let mut all = [split.train.clone(), split.validation.clone(), split.test.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..records).collect::<Vec<_>>(), "{name}");
    }
}

/// Row `i` of the golden `X`, beside the record of the data set it was taken from.
fn compare_golden(
    set: &Dataset,
    golden: &serde_json::Value,
    record_of_test_row: impl Fn(usize) -> usize,
) {
    let (rows, labels) = (golden["rows"].as_array().unwrap(), golden["y"].as_array().unwrap());
    assert_eq!(rows.len(), 200);
    for ((row, label), x) in rows.iter().zip(labels).zip(golden["X"].as_array().unwrap()) {
        let record = record_of_test_row(row.as_u64().unwrap() as usize);
        assert_eq!(u64::from(set.labels()[record]), label.as_u64().unwrap());
        let x = x.as_array().unwrap();
        assert_eq!(x.len(), set.features().len());
        for (ours, golden) in set.x().column(record).iter().zip(x) {
            assert!((ours - golden.as_f64().unwrap()).abs() <= 1e-12);
        }
    }
}

#[test]
fn satellite_gives_the_golden_rows() {
    let golden = golden("model_satellite_rows.json");
    let mut spec = spec(DatasetName::Satellite);
    spec.normalisation = Normalisation::PerPart;
    compare_golden(&loaded(&spec), &golden, |row| 4435 + row);
}

#[test]
fn robot_gives_the_golden_rows_and_class_order() {
    let golden = golden("model_robot_rows.json");
    let set = loaded(&spec(DatasetName::Robot));
    assert_eq!(serde_json::json!(set.class_names()), golden["class_order"]);
    compare_golden(&set, &golden, |row| golden["test_row_in_file"][row].as_u64().unwrap() as usize);
}

#[test]
fn label_means_of_training_rows_do_not_see_test_labels() {
    let test = "label_means_of_training_rows_do_not_see_test_labels";
    let Some(mut spec) = data_set(DatasetName::Adult, 7, test) else { return };
    spec.encoding = Encoding::MeanLabel { over: MeanOver::TrainingRows };
    let set = loaded(&spec);
    let row = set.features().iter().position(|f| f.name == "sex").unwrap();
    // Brute force from the other encoding: training share of class 1 among each sex, then min-max.
    spec.encoding = Encoding::Ordinal;
    let plain = loaded(&spec);
    let mean = |code: f64| {
        let of: Vec<_> =
            set.split().train.iter().filter(|&&r| plain.x()[(row, r)] == code).collect();
        of.iter().filter(|&&&r| set.labels()[r] == 1).count() as f64 / of.len() as f64
    };
    let (female, male) = (mean(0.0), mean(1.0));
    assert_eq!((set.features()[row].min, set.features()[row].max), (female, male));
    spec.encoding = Encoding::MeanLabel { over: MeanOver::AllRows };
    assert_ne!(loaded(&spec).features()[row].min, female);
}

#[test]
fn one_hot_groups_hold_exactly_one() {
    for (name, features) in [(DatasetName::Adult, 6 + 102), (DatasetName::Bank, 9 + 53)] {
        let Some(mut spec) = data_set(name, 7, "one_hot_groups_hold_exactly_one") else { continue };
        spec.encoding = Encoding::OneHot;
        let set = loaded(&spec);
        assert_eq!(set.features().len(), features, "{name}");
        let mut groups: Vec<&str> =
            set.features().iter().filter_map(|f| f.group.as_deref()).collect();
        groups.dedup();
        assert_eq!(groups.len(), if name == DatasetName::Adult { 8 } else { 10 });
        for group in groups {
            let rows: Vec<usize> = (0..features)
                .filter(|&i| set.features()[i].group.as_deref() == Some(group))
                .collect();
            assert!(rows.iter().all(|&i| set.features()[i].kind == FeatureKind::Binary));
            for x in set.x().column_iter().step_by(97) {
                assert_eq!(rows.iter().map(|&i| x[i]).sum::<f64>(), 1.0, "{name}, {group}");
            }
        }
    }
}

#[test]
fn categories_have_a_fixed_order() {
    let mut spec = spec(DatasetName::Bank);
    spec.encoding = Encoding::OneHot;
    let set = loaded(&spec);
    let of = |group: &str| {
        let of_group = set.features().iter().filter(|f| f.group.as_deref() == Some(group));
        of_group.map(|f| f.name.split_once('=').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("month"), ["mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]);
    assert_eq!(of("education")[..2], ["illiterate", "basic.4y"]);
    assert_eq!(of("default"), ["no", "unknown", "yes"]);
}

/// What comes with the program is what its homes distribute, byte for byte.
#[test]
fn included_sets_are_the_public_ones() {
    for &name in DatasetName::ALL.iter().filter(|name| name.is_included()) {
        let included = loaded(&spec(name));
        match data_dir().filter(|dir| dir.join(name.as_str()).is_dir()) {
            Some(dir) => {
                assert_eq!(included, loaded(&DatasetSpec::new(name, Some(dir), 7)), "{name}")
            }
            None => testing::not_run(
                "included_sets_are_the_public_ones",
                &format!("no other copy of {name} is here"),
            ),
        }
    }
}

#[test]
fn a_missing_file_says_what_to_do() {
    let empty = tempfile::tempdir().unwrap();
    for &name in DatasetName::ALL {
        if name == DatasetName::Synthetic {
            continue;
        }
        if name.is_included() {
            // A directory of other sets does not hide it. One that holds a part of it does: two sources are not mixed.
            assert!(load(&DatasetSpec::new(name, Some(empty.path().into()), 1)).is_ok(), "{name}");
            std::fs::create_dir(empty.path().join(name.as_str())).unwrap();
        }
        let error = load(&DatasetSpec::new(name, Some(empty.path().into()), 1)).unwrap_err();
        assert!(matches!(error, DataError::MissingFile { .. }), "{error:?}");
        let text = error.to_string();
        for part in [
            name.as_str(),
            &empty.path().display().to_string(),
            "--data-dir",
            "CLOISON_DATA_DIR",
            "fetch-datasets.sh",
        ] {
            assert!(text.contains(part), "{text}");
        }
        if name.is_included() {
            continue;
        }
        let error = load(&DatasetSpec::new(name, None, 1)).unwrap_err().to_string();
        assert!(error.contains("--data-dir") && error.contains("CLOISON_DATA_DIR"), "{error}");
    }
    let error = "iris".parse::<DatasetName>().unwrap_err();
    let _: &UnknownDataset = &error;
    assert!(error.to_string().contains("satellite, robot"), "{error}");
}

#[test]
fn damaged_files_are_refused_by_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("robot")).unwrap();
    let good = format!("{}Move-Forward\r\n", "1.5,".repeat(24));
    let cases = [
        (format!("{good}{}Move-Forward\n", "1.5,".repeat(23)), "line 2: 24 fields, expected 25"),
        (
            format!("{good}{good}{}Backwards\n", "1.5,".repeat(24)),
            "line 3: the last column is none of the classes",
        ),
        (good.replacen("1.5", "nan", 1), "line 1: column us1 is not a finite number"),
        (String::new(), "the file has no record"),
    ];
    for (text, expected) in cases {
        std::fs::write(dir.path().join("robot/sensor_readings_24.data"), text).unwrap();
        let error = load(&DatasetSpec::new(DatasetName::Robot, Some(dir.path().into()), 1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected) && error.contains("data set robot"), "{error}");
    }
    let mut spec = spec(DatasetName::Robot);
    spec.normalisation = Normalisation::PerPart;
    assert!(matches!(load(&spec), Err(DataError::NoParts { .. })));
}

/// Files of three images of 28 × 28 and one, as MNIST has them.
fn write_mnist(dir: &std::path::Path, images: &[u8], labels: &[u8]) {
    let dir = dir.join("mnist");
    std::fs::create_dir_all(&dir).unwrap();
    let head = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
    for (part, n) in [("train", 3), ("t10k", 1)] {
        let images = [head(&[2051, n, 28, 28]), images[..784 * n as usize].to_vec()].concat();
        std::fs::write(dir.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        let labels = [head(&[2049, n]), labels[..n as usize].to_vec()].concat();
        std::fs::write(dir.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }
}

#[test]
fn images_are_pixels_over_255_row_by_row() {
    let dir = tempfile::tempdir().unwrap();
    let images: Vec<u8> = (0..3 * 784).map(|i| (i % 251) as u8).collect();
    write_mnist(dir.path(), &images, &[7, 0, 9]);
    let mut spec = DatasetSpec::new(DatasetName::Mnist, Some(dir.path().into()), 1);
    spec.split = vfl_datasets::SplitSpec::new(1.0, 0.0, 0.0, true).unwrap();
    let set = loaded(&spec);
    assert_eq!((set.records(), set.features().len(), set.labels()), (4, 784, &[7, 0, 9, 7][..]));
    assert_eq!(set.split().test, [3], "the official test part");
    assert_eq!((set.features()[30].name.as_str(), set.features()[30].max), ("r01_c02", 255.0));
    assert_eq!(set.x()[(30, 1)], f64::from((784 + 30) % 251) / 255.0);

    let wrong = |file: &str, change: &dyn Fn(&mut Vec<u8>), says: &str| {
        write_mnist(dir.path(), &images, &[7, 0, 9]);
        let path = dir.path().join("mnist").join(file);
        let mut content = std::fs::read(&path).unwrap();
        change(&mut content);
        std::fs::write(&path, content).unwrap();
        let said = load(&spec).unwrap_err().to_string();
        assert!(said.contains(file) && said.contains(says), "{said}");
    };
    wrong("train-images-idx3-ubyte", &|c| c.truncate(2000), "or it is cut off");
    wrong("train-images-idx3-ubyte", &|c| c.clear(), "not a file of images of 28 × 28");
    wrong("train-images-idx3-ubyte", &|c| c[4..8].fill(255), "or it is cut off");
    wrong("t10k-labels-idx1-ubyte", &|c| c.push(1), "not a file of 1 labels");
    wrong("train-labels-idx1-ubyte", &|c| c[10] = 10, "label 3 is not a digit");

    // Records of the CIFARs: the label, or the coarse and the fine one, then three channels.
    for (name, labels, classes) in [(DatasetName::Cifar10, 1, 10), (DatasetName::Cifar100, 2, 100)]
    {
        let (train, test) =
            if labels == 1 { ("data_batch_1_first5000", "test_batch") } else { ("train", "test") };
        let path = |file: &str| dir.path().join(name.as_str()).join(format!("{file}.bin"));
        std::fs::create_dir_all(path("x").parent().unwrap()).unwrap();
        let record = |label: u8| {
            [vec![0; labels - 1], vec![label], (0..3072).map(|i| (i / 13) as u8).collect()].concat()
        };
        std::fs::write(path(train), [record(3), record(classes - 1)].concat()).unwrap();
        std::fs::write(path(test), record(5)).unwrap();
        let spec = DatasetSpec { name, ..spec.clone() };
        let set = loaded(&spec);
        assert_eq!(
            (set.labels(), set.class_names().len()),
            (&[3, u32::from(classes) - 1, 5][..], usize::from(classes))
        );
        assert_eq!(set.features()[1024 + 33].name, "green_r01_c01");
        assert_eq!(set.x()[(1057, 2)], f64::from((1057 / 13) as u8) / 255.0);
        std::fs::write(path(test), record(classes)).unwrap();
        assert!(load(&spec).unwrap_err().to_string().contains("label of record 1 is not below"));
        std::fs::write(path(test), &record(1)[..3000]).unwrap();
        assert!(load(&spec).unwrap_err().to_string().contains("it is cut off"));
    }
}

/// The sets beside the project are what their descriptions say.
#[test]
fn images_of_the_public_sets_are_counted() {
    for (name, train, test, first) in [
        (DatasetName::Mnist, 60_000, 10_000, &[5, 0, 4, 1, 9][..]),
        (DatasetName::Cifar10, 5000, 1000, &[6, 9, 9, 4, 1]),
        (DatasetName::Cifar100, 5000, 1000, &[]),
    ] {
        let Some(dir) = data_dir().filter(|dir| dir.join(name.as_str()).is_dir()) else {
            testing::not_run(
                "images_of_the_public_sets_are_counted",
                &format!("{name} is not here"),
            );
            continue;
        };
        let set = loaded(&DatasetSpec::new(name, Some(dir), 7));
        let official = set.parts().unwrap().iter().filter(|part| **part == Part::Test).count();
        // A user may have the whole of the CIFARs.
        assert!(set.records() - official >= train && official >= test, "{name}");
        assert_eq!(&set.labels()[..first.len()], first, "{name}");
        let mean = set.x().mean();
        // Published: MNIST 0.1307; CIFAR-10 0.4733 and CIFAR-100 0.4779 over their channels.
        let published = [0.1307, 0.4733, 0.4779][[
            DatasetName::Mnist,
            DatasetName::Cifar10,
            DatasetName::Cifar100,
        ]
        .iter()
        .position(|n| *n == name)
        .unwrap()];
        assert!((mean - published).abs() < 0.01, "{name}: {mean}");
    }
}

#[test]
fn of_several_files_the_missing_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = |name| match load(&DatasetSpec::new(name, Some(dir.path().into()), 1)) {
        Err(DataError::MissingFile { file, .. }) => file,
        other => panic!("{other:?}"),
    };
    let write = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
    std::fs::create_dir(dir.path().join("satellite")).unwrap();
    std::fs::create_dir(dir.path().join("drive")).unwrap();
    assert_eq!(missing(DatasetName::Satellite), "satellite/sat.trn");
    write("satellite/sat.trn", "1 2 3");
    assert_eq!(missing(DatasetName::Satellite), "satellite/sat.tst");

    // The whole of `drive` is preferred to its samples, and is separated by blanks where they have commas.
    assert_eq!(missing(DatasetName::Drive), "drive/Sensorless_drive_diagnosis.txt");
    write("drive/sensorless_subset_5500.csv", "");
    assert_eq!(missing(DatasetName::Drive), "drive/sensorless_subset_extra_1975.csv");
    let rows: String =
        (0..40).map(|r| format!("{}{}\n", format!("{r}.5e-3 ").repeat(48), r % 11 + 1)).collect();
    write("drive/Sensorless_drive_diagnosis.txt", &rows);
    let set = loaded(&DatasetSpec::new(DatasetName::Drive, Some(dir.path().into()), 1));
    assert_eq!((set.records(), set.labels()[12]), (40, 1));
}

#[test]
fn same_seed_same_data() {
    let spec = |seed| DatasetSpec::new(DatasetName::Synthetic, None, seed);
    let first = loaded(&spec(1));
    assert_eq!(first, loaded(&spec(1)));
    assert_eq!(first.data_hash(), loaded(&spec(1)).data_hash());
    assert_ne!(first.data_hash(), loaded(&spec(2)).data_hash());
    assert_eq!((first.records(), first.features().len(), first.class_names().len()), (4000, 16, 5));
    assert_eq!(first.ids().get(123), Some("synthetic-000123"));
    // A change of any part moves the hash: here the split alone.
    let mut other = spec(1);
    other.split = vfl_datasets::SplitSpec::new(0.5, 0.1, 0.4, true).unwrap();
    assert_ne!(first.data_hash(), loaded(&other).data_hash());
}

fn parameters(change: impl FnOnce(&mut SyntheticFields)) -> SyntheticParameters {
    let mut fields = SyntheticFields::default();
    change(&mut fields);
    SyntheticParameters::new(fields).unwrap()
}

#[test]
fn generated_features_are_what_they_claim() {
    let p = parameters(|f| {
        (f.features, f.informative, f.redundant, f.repeated) = (14, 5, 3, 2);
        (f.shift, f.scale) = (Some(0.0), Some(1.0));
    });
    let data = generate(&p, 3);
    let count = |origin| data.origins.iter().filter(|&&o| o == origin).count();
    let all = [Origin::Informative, Origin::Redundant, Origin::Repeated, Origin::Useless];
    assert_eq!(all.map(count), [5, 3, 2, 4]);
    let rows = |keep: &[Origin]| {
        let rows: Vec<_> = (0..14).filter(|&i| keep.contains(&data.origins[i])).collect();
        data.x.select_rows(&rows)
    };
    let rank = |m: &DMatrix<f64>| vfl_numerics::PseudoInverse::new(m).unwrap().rank;
    assert_eq!(rank(&rows(&all[..1])), 5);
    assert_eq!(rank(&rows(&all[..3])), 5, "redundant and repeated features add no direction");
    assert_eq!(rank(&data.x), 9);
    // Every repeated feature equals another one.
    let (repeated, useful) = (rows(&all[2..3]), rows(&all[..2]));
    assert!(repeated.row_iter().all(|r| useful.row_iter().any(|u| u == r)));
    // Noise: mean 0 within 5 standard errors, variance 1 likewise (false alarm 1e-5 over all eight).
    let noise = rows(&all[3..]);
    let n = noise.ncols() as f64;
    for row in noise.row_iter() {
        assert!(row.mean().abs() < 5.0 / n.sqrt());
        assert!((row.variance() - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
    }
}

#[test]
fn clusters_sit_on_distinct_vertices() {
    let p = parameters(|f| {
        (f.features, f.informative, f.redundant, f.repeated) = (4, 4, 0, 0);
        (f.classes, f.clusters_per_class, f.records) = (4, 4, 32_000);
        (f.class_sep, f.flip_y, f.shift, f.scale, f.shuffle) =
            (3.0, 0.0, Some(0.0), Some(1.0), false);
    });
    let data = generate(&p, 5);
    let mut seen = std::collections::HashSet::new();
    for cluster in 0..16 {
        let centre = data.x.columns(cluster * 2000, 2000).column_mean();
        // Each coordinate has variance at most 4 within a cluster: standard error 0.045.
        assert!(centre.iter().all(|c| (c.abs() - 3.0).abs() < 0.25), "{centre}");
        seen.insert(centre.map(|c| c > 0.0).iter().copied().collect::<Vec<_>>());
        assert!(
            data.labels[cluster * 2000..(cluster + 1) * 2000]
                .iter()
                .all(|&l| l == cluster as u32 % 4)
        );
    }
    assert_eq!(seen.len(), 16);
}

#[test]
fn labels_are_flipped_and_values_scaled_as_asked() {
    let p = |flip_y, shift, scale| {
        let p =
            parameters(|f| (f.flip_y, f.shift, f.scale, f.shuffle) = (flip_y, shift, scale, false));
        generate(&p, 11)
    };
    let (clean, flipped) = (p(0.0, Some(0.0), Some(1.0)), p(0.5, Some(2.0), Some(4.0)));
    assert_eq!(flipped.x, clean.x.map(|v| (v + 2.0) * 4.0));
    let wrong =
        clean.labels.iter().zip(&flipped.labels).filter(|(a, b)| a != b).count() as f64 / 4000.0;
    // flip_y (k − 1)/k = 0.4, standard error 0.0077.
    assert!((wrong - 0.4).abs() < 0.04, "{wrong}");
}

/// Multinomial logistic regression by full-batch gradient descent with momentum; enough to say "linearly learnable".
fn linear_accuracy(set: &Dataset) -> f64 {
    let (d, k) = (set.features().len(), set.class_names().len());
    let pick = |records: &[usize]| set.x().select_columns(records).insert_row(d, 1.0);
    let x = pick(&set.split().train);
    let y = DMatrix::from_fn(k, x.ncols(), |c, r| {
        f64::from(set.labels()[set.split().train[r]] as usize == c)
    });
    let (mut w, mut v) = (DMatrix::<f64>::zeros(k, d + 1), DMatrix::<f64>::zeros(k, d + 1));
    for _ in 0..1500 {
        let mut p = &w * &x;
        vfl_numerics::softmax_columns(&mut p);
        v = v * 0.9 - (p - &y) * x.transpose() * (1.0 / x.ncols() as f64);
        w += &v;
    }
    let z = w * pick(&set.split().test);
    let right = set.split().test.iter().zip(z.column_iter()).filter(|(r, z)| {
        vfl_numerics::arg_max(z.clone_owned().as_slice()) == set.labels()[**r] as usize
    });
    right.count() as f64 / set.split().test.len() as f64
}

#[test]
fn the_default_set_can_be_learnt_by_a_linear_model() {
    for seed in 0..6 {
        let accuracy =
            linear_accuracy(&loaded(&DatasetSpec::new(DatasetName::Synthetic, None, seed)));
        println!("seed {seed}: {accuracy:.3}");
        assert!(accuracy >= 0.8, "seed {seed}: {accuracy}");
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    type Change<'a> = &'a dyn Fn(&mut SyntheticFields);
    let refused = |change: Change<'_>| {
        let mut fields = SyntheticFields::default();
        change(&mut fields);
        SyntheticParameters::new(fields).unwrap_err().to_string()
    };
    let cases: [(Change<'_>, &str); 12] = [
        (&|f| f.classes = 1, "classes is below 2"),
        (&|f| f.clusters_per_class = 0, "clusters_per_class is 0"),
        (&|f| f.informative = 0, "informative is 0"),
        (&|f| f.informative = 20, "more than the 16 features"),
        (&|f| f.redundant = usize::MAX, "more than the 16 features"),
        (&|f| f.clusters_per_class = 1000, "5000 clusters do not fit on the 2^9 vertices"),
        (&|f| f.flip_y = f64::NAN, "flip_y is outside"),
        (&|f| f.class_sep = -1.0, "class_sep is negative"),
        (&|f| f.scale = Some(0.0), "scale is outside"),
        (&|f| f.shift = Some(f64::INFINITY), "shift is beyond"),
        (&|f| f.records = 4, "records is below the number of clusters"),
        (&|f| f.records = usize::MAX / 8, "records is too large"),
    ];
    for (change, expected) in cases {
        let error = refused(change);
        assert!(error.contains(expected), "{error}");
    }
    assert!(serde_json::from_str::<SyntheticParameters>(r#"{"classes": 1}"#).is_err());
    assert!(serde_json::from_str::<SyntheticParameters>(r#"{"clases": 3}"#).is_err());
    let p: SyntheticParameters = serde_json::from_str(r#"{"classes": 3, "shift": 0.5}"#).unwrap();
    assert_eq!((p.fields().classes, p.fields().shift, p.fields().records), (3, Some(0.5), 4000));
}
