//! Apache Parquet: flat columns of numbers and text, as pandas, Polars, DuckDB, Spark and others write them.
//!
//! The bounded memory of all readers here ([`Room`](super::room::Room)) is the reason for an own one: sizes come from page
//! headers, which are not believed. Nested columns, encryption and rare compressions are refused by name.

mod codec;
mod column;
mod delta;
mod footer;
mod hybrid;
mod page;
mod text;
mod thrift;
mod values;

use std::fs::File;
use std::path::Path;

use robust_ot::Result;

use self::footer::Footer;
use super::mixed_table::Cells;
use super::room::Room;
use super::{format_error, open};

/// pandas calls the columns of an index by numbers between these.
const INDEX: (&str, &str) = ("__index_level_", "__");

/// An open file with its columns.
pub(super) struct ParquetFile<'a> {
    path: &'a Path,
    file: File,
    footer: Footer,
}

impl<'a> ParquetFile<'a> {
    /// Reads the description of the columns.
    pub(super) fn open(path: &'a Path, room: &mut Room) -> Result<Self> {
        let mut file = open(path)?;
        let footer = Footer::read(&mut file, room).map_err(|message| format_error(path, message))?;
        Ok(Self { path, file, footer })
    }

    /// The names of all columns.
    pub(super) fn names(&self) -> Vec<String> {
        self.footer.columns.iter().map(|column| column.name.clone()).collect()
    }

    /// The columns that are no index of pandas.
    pub(super) fn without_index(&self) -> Vec<usize> {
        let is_index = |name: &str| name.strip_prefix(INDEX.0).is_some_and(|rest| rest.ends_with(INDEX.1));
        (0..self.footer.columns.len()).filter(|&at| !is_index(&self.footer.columns[at].name)).collect()
    }

    /// The number of rows, as the file says it.
    pub(super) fn rows(&self) -> usize {
        self.footer.rows
    }

    /// What a column holds if it is not numbers.
    pub(super) fn obstacle(&self, column: usize) -> Option<&'static str> {
        self.footer.columns[column].obstacle()
    }

    /// Reads a column.
    pub(super) fn read(&mut self, column: usize, room: &mut Room) -> Result<Cells> {
        let name = &self.footer.columns[column].name;
        column::read(&mut self.file, &self.footer, column, room)
            .map_err(|message| format_error(self.path, format!("column '{name}': {message}")))
    }
}
