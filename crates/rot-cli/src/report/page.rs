//! An HTML page with headings, text, tables and pictures in one file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::failure::Failure;
use crate::picture::{Drawing, save_both, svg};

/// The style sheet of every page.
const STYLE: &str = include_str!("style.css");
/// The script of the buttons that copy a command.
const COPY: &str = include_str!("copy.js");
/// The rows of a table that are shown at first, if there are more than `FOLDED`.
const SHOWN: usize = 8;
/// The rows that a table has before its end is folded.
const FOLDED: usize = 12;

/// A page under construction.
pub struct Page {
    folder: PathBuf,
    title: String,
    body: String,
    /// Section titles, listed in the table of contents.
    sections: Vec<String>,
    scripts: Vec<&'static str>,
    /// The number of folded tables.
    folded: usize,
}

impl Page {
    /// An empty page; its pictures are also saved to a folder.
    pub fn new(title: &str, folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            title: title.to_owned(),
            body: String::new(),
            sections: Vec::new(),
            scripts: Vec::new(),
            folded: 0,
        }
    }

    /// Whether the page has no content yet.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Adds a heading that the table of contents lists.
    pub fn section(&mut self, title: &str) {
        let number = self.sections.len();
        self.sections.push(title.to_owned());
        let _ = write!(self.body, "\n<h2 id=\"s{number}\">{}</h2>\n", escape(title));
    }

    /// Adds a smaller heading.
    pub fn heading(&mut self, title: &str) {
        let _ = write!(self.body, "\n<h3>{}</h3>\n", escape(title));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
    }

    /// Adds what was found, in words.
    pub fn summary(&mut self, sentences: &[String]) {
        let all: Vec<&str> = sentences.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        let _ = writeln!(self.body, "<p class=\"summary\">{}</p>", escape(&all.join(" ")));
    }

    /// Adds the command that a run repeats, what made it and where.
    pub fn provenance(&mut self, run: &Value) {
        self.section("This run");
        let text = |key: &str| run[key].as_str().unwrap_or("");
        if !text("command").is_empty() {
            let _ = writeln!(
                self.body,
                "<p class=\"command\"><code>{}</code> <button type=\"button\" class=\"copy\">copy</button></p>",
                escape(text("command"))
            );
            self.scripts.push(COPY);
        }
        self.facts(&[("version", text("version").to_owned()), ("machine", text("machine").to_owned())]);
    }

    /// Adds a list of names and values, without empty values.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        self.body.push_str("<dl>\n");
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            let _ = writeln!(self.body, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        self.body.push_str("</dl>\n");
    }

    /// Adds a table without its empty columns; the end of a long one is folded.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        if rows.len() > FOLDED {
            let number = self.folded;
            self.folded += 1;
            let _ = writeln!(
                self.body,
                "<p class=\"unfold\"><input type=\"checkbox\" id=\"all{number}\"> <label for=\"all{number}\">show all {} rows</label></p>",
                rows.len()
            );
        }
        self.rows(header, rows, if rows.len() > FOLDED { SHOWN } else { rows.len() });
    }

    /// Adds a table with all its rows in view; `yes` and `no` in a column whose name begins with `within` are highlighted.
    pub fn whole_table(&mut self, header: &[&str], rows: &[Vec<String>]) {
        self.rows(header, rows, rows.len());
    }

    fn rows(&mut self, header: &[&str], rows: &[Vec<String>], shown: usize) {
        self.body.push_str("<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>");
        let filled = |at: usize| rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.is_empty()));
        for (_, name) in header.iter().enumerate().filter(|(at, _)| filled(*at)) {
            let _ = write!(self.body, "<th scope=\"col\">{}</th>", escape(name));
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for (line, row) in rows.iter().enumerate() {
            self.body.push_str(if line < shown { "<tr>" } else { "<tr class=\"more\">" });
            for (at, cell) in row.iter().enumerate().filter(|(at, _)| filled(*at)) {
                let text = escape(cell);
                let _ = match (at, cell.as_str()) {
                    (0, _) => write!(self.body, "<th scope=\"row\">{text}</th>"),
                    (at, "yes" | "no") if header.get(at).is_some_and(|name| name.starts_with("within")) => {
                        write!(self.body, "<td class=\"{cell}\">{text}</td>")
                    }
                    _ => write!(self.body, "<td>{text}</td>"),
                };
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// Adds a picture to the page and saves it to files with this name.
    pub fn picture(&mut self, drawing: &impl Drawing, name: &str, caption: &str) -> Result<(), Failure> {
        save_both(drawing, &self.folder, name)?;
        let caption = escape(caption);
        // An HTML page must not contain the XML declaration before the <svg> element.
        let text = svg(drawing)?;
        let text = text.find("<svg").map_or(text.as_str(), |start| &text[start..]);
        let (width, _) = drawing.size();
        let named = format!("<svg role=\"img\" aria-label=\"{caption}\" style=\"--width: {width}px\" ");
        let text = text.replacen("<svg ", &named, 1);
        let _ = writeln!(self.body, "<figure>{text}<figcaption>{caption}</figcaption></figure>");
        Ok(())
    }

    /// Adds elements that a script fills with the given data.
    pub fn view(&mut self, id: &str, data: &Value, markup: &str, script: &'static str) {
        // Text in the data must not end the script element.
        let data = data.to_string().replace('<', "\\u003c");
        let _ =
            writeln!(self.body, "{markup}\n<script type=\"application/json\" id=\"{id}\">{data}</script>");
        self.scripts.push(script);
    }

    /// Returns the complete page.
    pub fn finish(self) -> String {
        let title = escape(&self.title);
        let mut contents = String::new();
        if self.sections.len() > 1 {
            for (number, section) in self.sections.iter().enumerate() {
                let _ = write!(contents, "<li><a href=\"#s{number}\">{}</a></li>", escape(section));
            }
            contents = format!("<nav><ul>{contents}</ul></nav>\n");
        }
        let scripts = self.scripts.iter().flat_map(|text| ["<script>\n", text, "</script>\n"]);
        let scripts: String = scripts.collect();
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n{contents}{}\n</main>\n\
             <footer>Written by rot {version}.</footer>\n{scripts}</body>\n</html>\n",
            self.body
        )
    }
}

/// Escapes text for use in an HTML element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_labels_do_not_become_markup() {
        let dir = tempfile::tempdir().unwrap();
        let mut page = Page::new("A page", dir.path());
        let evil = "</script><img src=x onerror=\"alert('1')\">";
        page.section(evil);
        page.whole_table(&[evil, "within 0.05"], &[vec![evil.into(), "no".into()]]);
        page.provenance(&json!({ "command": evil }));
        page.view("data", &json!({ "name": evil }), "<div></div>", "");
        let text = page.finish();
        assert!(!text.contains("<img"), "{text}");
        assert!(text.contains("\\u003c/script"));
        assert!(text.contains("<td class=\"no\">no</td>"));
    }

    #[test]
    fn the_end_of_a_long_table_is_folded() {
        let dir = tempfile::tempdir().unwrap();
        let rows =
            |count: usize| -> Vec<Vec<String>> { (0..count).map(|row| vec![row.to_string()]).collect() };
        let hidden = |count: usize| {
            let mut page = Page::new("A page", dir.path());
            page.table(&["row"], &rows(count));
            let text = page.finish();
            (text.matches("<tr class=\"more\">").count(), text.contains(&format!("show all {count} rows")))
        };
        assert_eq!(hidden(FOLDED), (0, false));
        assert_eq!(hidden(FOLDED + 1), (FOLDED + 1 - SHOWN, true));
    }
}
