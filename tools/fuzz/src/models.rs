//! The loaders of models, checkpoints and learners.

use std::path::Path;

use ndarray::{Array2, array};
use robust_ot::Grouping;
use robust_ot::loss::{LossSettings, RobustLoss, Targets};
use robust_ot::solve::Interrupt;
use robust_ot_learn::data::Features;
use robust_ot_learn::{
    About, Dataset, LabelTransport, Learner, Model, Objective, RowLength, Standardization, TrainSettings,
    Trainer, verify,
};

use crate::targets::ok;

/// A run and a learner that files are loaded into.
pub struct Models {
    rows: Dataset,
    held: Dataset,
    objective: Objective,
    learner: Learner,
}

impl Models {
    pub fn new() -> Self {
        let rows = |shift: f32| {
            let x = array![[0.0 + shift, 1.0], [1.0, 0.0 + shift], [5.0, 5.0], [6.0 + shift, 5.0]];
            Dataset::new(Features::Dense(x), targets()).expect("four rows with labels")
        };
        let objective = objective();
        let learner = Learner::new(2, objective.clone(), settings()).expect("the settings are in range");
        Self { rows: rows(0.0), held: rows(0.5), objective, learner }
    }

    fn trainer(&self) -> Trainer<'_> {
        Trainer::new(&self.rows, Some(&self.held), &self.objective, settings()).expect("the rows fit")
    }

    /// A model with every part, as the bytes of a file.
    pub fn model_file() -> Vec<u8> {
        let names = vec!["sea".to_owned(), "ship".to_owned()];
        let weights = array![[0.5, -0.5], [1.0, -1.0]];
        let mut model = Model::new(weights, Some(vec![0.1, -0.1]), robust_ot_learn::Output::Softmax, names)
            .expect("two labels with names");
        let rows = Features::Dense(array![[0.0, 1.0], [1.0, 4.0]]);
        model.preprocessing.standardization = Some(Standardization::of(&rows));
        model.preprocessing.row_length = RowLength::new(1.0).ok();
        model.label_vectors = Some(array![[1.0, 0.0], [0.0, 1.0]]);
        model.geometry = Some(array![[1.0, 0.5], [0.5, 1.0]]);
        let robust = Some(LossSettings::default());
        model.about = About { loss: "mix".into(), robust, groups: Some(vec![0, 1]), ..About::default() };
        model.to_bytes().expect("a model can be written")
    }

    /// A checkpoint after one epoch.
    pub fn checkpoint_file(&self) -> Vec<u8> {
        let dir = tempfile::tempdir().expect("there is a folder for temporary files");
        let path = dir.path().join("checkpoint.safetensors");
        let mut trainer = self.trainer();
        trainer.epoch(&Interrupt::default(), |_, _| ()).expect("an epoch of four rows");
        trainer.save(&path).expect("the folder is writable");
        std::fs::read(&path).expect("the file was written")
    }

    /// A learner after one pass.
    pub fn learner_file(&self) -> Vec<u8> {
        let mut learner = self.learner.clone();
        learner.learn(&self.rows, &Interrupt::default()).expect("a pass of four rows");
        learner.to_bytes().expect("a learner can be written")
    }

    /// Loads a model and uses what was loaded.
    pub fn read_model(path: &Path, bytes: &[u8]) -> Result<Vec<bool>, String> {
        let calls = vec![ok(Model::load_checked(path)), ok(verify(path))];
        let Ok(model) = Model::from_bytes(bytes) else { return Ok(calls) };
        let again = model.to_bytes().and_then(|bytes| Model::from_bytes(&bytes));
        // NaN is not equal to itself; JSON has none, and arrays with one are refused.
        match again {
            Ok(again) if again == model => {}
            Ok(_) => return Err("a model changed when it was saved".into()),
            Err(error) => return Err(format!("a model that was read cannot be saved and read: {error}")),
        }
        let rows = Features::Dense(Array2::zeros((2, model.features())));
        let _ = (model.probabilities(rows), LabelTransport::of(&model).map(|_| ()));
        Ok(calls)
    }

    pub fn read_checkpoint(&self, path: &Path) -> Vec<bool> {
        vec![ok(self.trainer().restore(path)), ok(verify(path))]
    }

    pub fn read_learner(&self, path: &Path, bytes: &[u8]) -> Vec<bool> {
        vec![ok(self.learner.clone().restore(bytes)), ok(verify(path))]
    }
}

fn settings() -> TrainSettings {
    TrainSettings { epochs: 3, batch: 2, learning_rate: 0.1, ..TrainSettings::default() }
}

fn targets() -> Targets {
    Targets::new(2, [[0], [0], [1], [1]]).expect("labels below two")
}

fn objective() -> Objective {
    let vectors = array![[1.0, 0.0], [0.0, 1.0]];
    let robust = RobustLoss::new(&vectors, &Grouping::none(2), LossSettings::default());
    Objective::mix(1.0, 1.0, robust.expect("two vectors")).expect("weights that are not negative")
}
