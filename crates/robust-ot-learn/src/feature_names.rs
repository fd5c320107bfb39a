//! The names of a model's features, by which the columns of later rows are matched.

use robust_ot::{Error, Result};

use crate::data::match_columns;
use crate::model::Model;

impl Model {
    /// The names of its features, if its training rows had some.
    pub fn feature_names(&self) -> Option<&[String]> {
        self.feature_names.as_deref()
    }

    /// Sets the names of its features, which model files keep.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot_learn::{Model, Output};
    ///
    /// let mut model = Model::new(array![[-1.0, 1.0]], None, Output::Softmax, vec!["a".into(), "b".into()])?;
    /// model.name_features(Some(vec!["height".into()]))?;
    /// assert_eq!(Model::from_bytes(&model.to_bytes()?)?.feature_names().unwrap(), ["height"]);
    /// assert!(model.name_features(Some(vec!["height".into(), "width".into()])).is_err());
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is not one name per feature.
    pub fn name_features(&mut self, names: Option<Vec<String>>) -> Result<()> {
        if let Some(names) = names.as_ref().filter(|names| names.len() != self.features()) {
            return Err(Error::Shape {
                name: "the feature names",
                expected: format!("{}, one per feature", self.features()),
                found: names.len().to_string(),
            });
        }
        self.feature_names = names;
        Ok(())
    }

    /// Where the model's features are among the columns of some rows; None if they are in order, or if the model or the rows
    /// have no names. Errors call the rows `place`.
    ///
    /// ```
    /// use ndarray::array;
    /// use robust_ot_learn::{Model, Output};
    ///
    /// let names = ["a", "b", "z"].map(str::to_owned);
    /// let mut model = Model::new(array![[1.0], [2.0]], None, Output::Sigmoid, vec!["x".into()])?;
    /// model.name_features(Some(names[..2].to_vec()))?;
    /// assert_eq!(model.order_of(Some(&[names[1].clone(), names[0].clone()]), "rows.csv")?, Some(vec![1, 0]));
    /// let refused = model.order_of(Some(&names[1..]), "rows.csv").unwrap_err().to_string();
    /// assert!(refused.ends_with("but only the model has 'a' and only rows.csv has 'z'"), "{refused}");
    /// # Ok::<(), robust_ot::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the names differ.
    pub fn order_of(&self, names: Option<&[String]>, place: &str) -> Result<Option<Vec<usize>>> {
        let mut orders = match_columns(&[("the model", self.feature_names()), (place, names)])?.orders;
        Ok(orders.pop().flatten())
    }
}
