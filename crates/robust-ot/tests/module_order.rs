//! Modules depend on each other in one direction: each uses only those listed before it.

use std::fs;
use std::path::Path;

/// The modules of the crate, from the bottom up; those of one line do not use each other.
const ORDER: [&[&str]; 14] = [
    &["error", "interrupt", "kernels"],
    &["linalg"],
    &["measure", "grouping"],
    &["frame"],
    &["grouping_rule"],
    &["metric"],
    &["transport"],
    &["displacement"],
    &["differences"],
    &["testing"],
    &["robust"],
    &["barycenter"],
    &["loss"],
    &["lib"],
];

/// Names that the crate's root re-exports, with their modules.
const ROOT: [(&str, &str); 8] = [
    ("Error", "error"),
    ("Grouping", "grouping"),
    ("Measure", "measure"),
    ("MetricSet", "metric"),
    ("Problem", "robust"),
    ("Settings", "robust"),
    ("Solution", "robust"),
    ("Status", "robust"),
];

fn level(module: &str) -> Option<usize> {
    ORDER.iter().position(|modules| modules.contains(&module))
}

/// The module or root name after every `crate::` in code.
fn uses(text: &str) -> Vec<String> {
    let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    let parts = code.flat_map(|line| line.split("crate::").skip(1));
    parts.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

fn check(file: &Path, module: &str, wrong: &mut Vec<String>) {
    let own = level(module);
    let name = file.file_stem().unwrap().to_string_lossy();
    // Tests may compare with anything.
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap();
    if name.ends_with("tests") {
        return;
    }
    if own.is_none() {
        wrong.push(format!("{}: the module {module} has no place in the order", file.display()));
    }
    for used in uses(text) {
        let used = ROOT.iter().find(|(root, _)| *root == used).map_or(used.as_str(), |(_, module)| module);
        let Some(below) = level(used) else { continue };
        if used != module && own.is_some_and(|own| below >= own) {
            wrong.push(format!("{}: {module} uses {used}, which is not below it", file.display()));
        }
    }
}

fn walk(folder: &Path, module: Option<&str>, wrong: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            walk(&path, Some(module.unwrap_or(&name)), wrong);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            check(&path, module.unwrap_or(&name), wrong);
        }
    }
}

#[test]
fn modules_use_only_those_below_them() {
    let mut wrong = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_use_is_found_in_code_only() {
    assert_eq!(
        uses("use crate::robust::Frame;\n// crate::loss\nfn f(x: crate::Measure) {}"),
        ["robust", "Measure"]
    );
}
