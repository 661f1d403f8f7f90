//! Reading of image files: MNIST, CIFAR-10 and CIFAR-100, plain or compressed by gzip. A directory
//! holds a whole set, or only its first records.

use std::path::{Path, PathBuf};

use super::dataset::DataError;
use super::encode::{RawColumn, RawValues};
use super::names::{DatasetName, ImageShape};
use super::raw_dataset::{RawDataset, read_content};
use super::split::Part;

/// The largest value of a pixel.
pub(super) const MOST: f64 = 255.0;

/// One image: its label and the offset of its pixels.
struct Image {
    label: u32,
    at: usize,
}

/// Reads the files of a set of images; the training part comes first.
pub(super) fn read(
    dataset: DatasetName,
    shape: ImageShape,
    directory: Option<&Path>,
) -> Result<RawDataset, DataError> {
    let directory = directory.ok_or(DataError::NoDirectory { dataset })?;
    let files = Files { dataset, directory };
    let classes = &dataset.description().classes;
    let parts = match dataset {
        DatasetName::Mnist => {
            let part = |prefix: &str| {
                files.idx(
                    shape,
                    &format!("{prefix}-images-idx3-ubyte"),
                    &format!("{prefix}-labels-idx1-ubyte"),
                )
            };
            [part("train")?, part("t10k")?]
        }
        DatasetName::Cifar10 => {
            let batches = [1, 2, 3, 4, 5].map(|batch| format!("data_batch_{batch}.bin"));
            let whole = batches.each_ref().map(String::as_str);
            let part =
                |alternatives: &[&[&str]]| files.records(shape, alternatives, 1, classes.len());
            let train = part(&[&whole, &["data_batch_1_first5000.bin"]])?;
            let test = part(&[&["test_batch.bin"], &["test_batch_first1000.bin"]])?;
            [train, test]
        }
        _ => {
            // The coarse label stands before the fine one.
            let part =
                |alternatives: &[&[&str]]| files.records(shape, alternatives, 2, classes.len());
            let train = part(&[&["train.bin"], &["train_subset5000.bin"]])?;
            let test = part(&[&["test.bin"], &["test_subset1000.bin"]])?;
            [train, test]
        }
    };
    Ok(raw(shape, classes.clone(), &parts))
}

/// The content of files, and the images in it.
struct Images {
    content: Vec<u8>,
    images: Vec<Image>,
}

fn raw(shape: ImageShape, class_names: Vec<String>, parts: &[Images; 2]) -> RawDataset {
    let all = || parts.iter().flat_map(|part| part.images.iter().map(move |image| (part, image)));
    let pixel = |p: usize| {
        let (channel, row, column) =
            (p / (shape.height * shape.width), p / shape.width % shape.height, p % shape.width);
        let name = match shape.channels {
            1 => format!("r{row:02}_c{column:02}"),
            _ => format!("{}_r{row:02}_c{column:02}", ["red", "green", "blue"][channel % 3]),
        };
        RawColumn {
            name,
            values: RawValues::Bytes(
                all().map(|(part, image)| part.content[image.at + p]).collect(),
            ),
        }
    };
    let columns = (0..shape.features()).map(pixel).collect();
    let of = |part: usize| if part == 0 { Part::Train } else { Part::Test };
    let parts_of = parts
        .iter()
        .enumerate()
        .flat_map(|(at, part)| std::iter::repeat_n(of(at), part.images.len()));
    RawDataset {
        columns,
        labels: all().map(|(_, image)| image.label).collect(),
        class_names,
        parts: Some(parts_of.collect()),
    }
}

/// The files of one data set in a directory.
struct Files<'a> {
    dataset: DatasetName,
    directory: &'a Path,
}

impl Files<'_> {
    fn content(&self, file: &str) -> Result<Option<(PathBuf, Vec<u8>)>, DataError> {
        read_content(self.dataset, self.directory, &format!("{}/{file}", self.dataset))
    }

    fn needed(&self, file: &str) -> Result<(PathBuf, Vec<u8>), DataError> {
        self.content(file)?.ok_or_else(|| self.missing(file))
    }

    fn missing(&self, file: &str) -> DataError {
        let (dataset, directory) = (self.dataset, self.directory.to_owned());
        DataError::MissingFile { dataset, file: format!("{dataset}/{file}"), directory }
    }

    fn wrong(&self, file: &Path, reason: String) -> DataError {
        DataError::Malformed { dataset: self.dataset, file: file.to_owned(), line: 1, reason }
    }

    /// Reads MNIST's format: a header of big-endian numbers (magic number, dimensions), then bytes.
    /// Images and labels are in separate files.
    fn idx(&self, shape: ImageShape, images: &str, labels: &str) -> Result<Images, DataError> {
        let (images_file, content) = self.needed(images)?;
        let (labels_file, labels) = self.needed(labels)?;
        let number = |content: &[u8], at: usize| {
            content
                .get(4 * at..)
                .and_then(|rest| rest.first_chunk())
                .map(|bytes| u32::from_be_bytes(*bytes) as usize)
        };
        let head: Vec<Option<usize>> = (0..4).map(|at| number(&content, at)).collect();
        let (pixels, count) = (shape.features(), head[1].unwrap_or(0));
        if head != [Some(2051), Some(count), Some(shape.height), Some(shape.width)]
            || Some(content.len())
                != count.checked_mul(pixels).and_then(|bytes| bytes.checked_add(16))
        {
            let (height, width) = (shape.height, shape.width);
            return Err(self.wrong(
                &images_file,
                format!(
                    "it is not a file of images of {height} × {width} pixels, or it is cut off"
                ),
            ));
        }
        if (number(&labels, 0), number(&labels, 1)) != (Some(2049), Some(count))
            || labels.len() != 8 + count
        {
            return Err(self.wrong(
                &labels_file,
                format!("it is not a file of {count} labels, or it is cut off"),
            ));
        }
        let label = |(n, &label): (usize, &u8)| match label {
            0..10 => Ok(Image { label: u32::from(label), at: 16 + n * pixels }),
            _ => Err(self.wrong(&labels_file, format!("label {} is not a digit", n + 1))),
        };
        let images = labels[8..].iter().enumerate().map(label).collect::<Result<_, _>>()?;
        Ok(Images { content, images })
    }

    /// Reads the CIFAR format: records of labels, the last of which counts, and pixels. Of the
    /// alternatives, the first whose files are all there is read.
    fn records(
        &self,
        shape: ImageShape,
        alternatives: &[&[&str]],
        labels: usize,
        classes: usize,
    ) -> Result<Images, DataError> {
        let length = labels + shape.features();
        for files in alternatives {
            let found = files
                .iter()
                .map(|file| self.content(file))
                .collect::<Result<Option<Vec<_>>, _>>()?;
            let Some(found) = found else { continue };
            let mut all = Images { content: Vec::new(), images: Vec::new() };
            for (file, content) in found {
                if content.is_empty() || !content.len().is_multiple_of(length) {
                    return Err(self.wrong(
                        &file,
                        format!("it is not of records of {length} bytes, or it is cut off"),
                    ));
                }
                for (n, record) in content.chunks_exact(length).enumerate() {
                    let label = record[labels - 1];
                    if usize::from(label) >= classes {
                        return Err(self.wrong(
                            &file,
                            format!("the label of record {} is not below {classes}", n + 1),
                        ));
                    }
                    all.images.push(Image {
                        label: u32::from(label),
                        at: all.content.len() + n * length + labels,
                    });
                }
                all.content.extend_from_slice(&content);
            }
            return Ok(all);
        }
        Err(self.missing(alternatives.first().and_then(|files| files.first()).unwrap_or(&"")))
    }
}
