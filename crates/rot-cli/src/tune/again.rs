//! The command that repeats the fit of the winner.

use serde_json::Value;

/// The options of `rot tune` that `rot train` has no use for or takes from the winner, and whether a value follows.
const OWN: [(&str, bool); 7] = [
    ("--budget", true),
    ("--select", true),
    ("--validation", true),
    ("--picture", true),
    ("--checkpoint", true),
    ("--resume", false),
    ("--json", false),
];

/// `rot train` with the data and the outputs of this command line of `rot tune`, and the options of the winner.
pub fn train_command(words: &[String], options: &[(&'static str, Value)]) -> String {
    let mut kept = vec!["rot".to_owned(), "train".to_owned()];
    // The first word is the name of the command.
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        let (name, has_own_value) =
            word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        match OWN.iter().find(|(own, _)| *own == name) {
            Some((_, true)) if !has_own_value => drop(rest.next()),
            Some(_) => {}
            // A flag that the data and the winner both have.
            None if options.iter().any(|(option, _)| name == format!("--{option}")) && !has_own_value => {
                let is_flag = options
                    .iter()
                    .any(|(option, value)| name == format!("--{option}") && *value == Value::Bool(true));
                if !is_flag {
                    rest.next();
                }
            }
            None => kept.push(word.clone()),
        }
    }
    for (name, value) in options {
        kept.push(format!("--{name}"));
        match value {
            Value::Bool(_) => {}
            Value::String(text) => kept.push(text.clone()),
            other => kept.push(other.to_string()),
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_of_the_search_are_replaced_by_those_of_the_winner() {
        let words = "tune --train-x x.npy --budget 5m --select=map --train-y y.txt --resume --checkpoint d --out m.safetensors";
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let options = [("hidden", json!(512)), ("dropout", json!(0.5)), ("standardize", json!(true))];
        assert_eq!(
            train_command(&words, &options),
            "rot train --train-x x.npy --train-y y.txt --out m.safetensors --hidden 512 --dropout 0.5 --standardize"
        );
    }

    #[test]
    fn a_scaling_that_both_have_is_said_once() {
        let words: Vec<String> =
            "tune --row-length none --standardize --mnist d".split(' ').map(str::to_owned).collect();
        let options = [("row-length", json!(1)), ("standardize", json!(true))];
        assert_eq!(train_command(&words, &options), "rot train --mnist d --row-length 1 --standardize");
    }
}
