//! A hash that distinguishes runs (FNV-1a, word by word).

use crate::data::Features;
use crate::dataset::Dataset;

#[derive(Debug)]
pub(super) struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    pub(super) fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3);
    }

    pub(super) fn add_text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.add(u64::from(byte)));
    }

    pub(super) fn add_numbers<'a>(&mut self, numbers: impl IntoIterator<Item = &'a f32>) {
        numbers.into_iter().for_each(|x| self.add(u64::from(x.to_bits())));
    }

    pub(super) fn add_dataset(&mut self, data: &Dataset) {
        let targets = data.targets();
        data.weights().iter().for_each(|weights| self.add_numbers(*weights));
        for size in [data.rows(), data.features().columns(), targets.labels()] {
            self.add(size as u64);
        }
        for row in 0..data.rows() {
            self.add(targets.row(row).len() as u64);
            targets.row(row).iter().for_each(|&label| self.add(label as u64));
            match data.features() {
                Features::Dense(array) => self.add_numbers(array.row(row)),
                Features::Sparse(sparse) => {
                    let (places, values) = sparse.row(row);
                    self.add(places.len() as u64);
                    places.iter().for_each(|&place| self.add(u64::from(place)));
                    self.add_numbers(values);
                }
            }
        }
    }

    pub(super) fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}
