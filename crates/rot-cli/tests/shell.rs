//! Help, completions and pages for man.

mod common;

use common::Scratch;

/// The commands that `rot help` knows.
const COMMANDS: [&str; 16] = [
    "distance",
    "barycenter",
    "pairwise",
    "nearest",
    "compare",
    "train",
    "tune",
    "predict",
    "evaluate",
    "extend",
    "inspect",
    "verify",
    "report",
    "reproduce",
    "demo",
    "completions",
];

#[test]
fn the_help_shows_every_command_in_its_group() {
    let help = Scratch::new().out("--help");
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text} in {help}"));
    let titles = ["Compute:", "Learn:", "Show:", "Paper:", "Shell:", "Options:"].map(place);
    assert!(titles.is_sorted(), "{help}");
    for command in COMMANDS {
        let line = help.lines().find(|line| line.trim_start().starts_with(&format!("{command} ")));
        assert!(line.is_some_and(|line| line.len() > 30), "{command} in {help}");
    }
    assert!(place("pairwise") < place("Learn:") && place("train") < place("Show:"));
    assert!(help.contains("Exit codes: 0"));
}

#[test]
fn every_shell_has_completions_of_every_command_and_option() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = scratch.out(&format!("completions {shell}"));
        for word in COMMANDS.iter().chain(&["metric", "weight-column"]) {
            assert!(script.contains(word), "{word} for {shell}");
        }
        // PowerShell's have no values.
        assert!(shell == "powershell" || script.contains("drop-rows"), "{shell}");
    }
    assert!(scratch.refusal("completions tcsh").contains("tcsh"));
}

#[test]
fn every_command_has_a_page_for_man() {
    let scratch = Scratch::new();
    scratch.out("man pages");
    for command in COMMANDS {
        let page = scratch.read(&format!("pages/rot-{command}.1"));
        assert!(page.contains(".TH ") && page.contains(".SH SYNOPSIS"), "{page}");
    }
    let page = scratch.read("pages/rot-distance.1");
    assert!(
        page.contains("rot distance") && page.contains("weight\\-column") && page.contains("Examples"),
        "{page}"
    );
    assert!(scratch.read("pages/rot.1").contains("rot\\-pairwise"));
    assert_eq!(std::fs::read_dir(scratch.path("pages")).unwrap().count(), COMMANDS.len() + 1);
}
