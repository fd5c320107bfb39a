//! Report pages written by the real binary. `make test-browser` opens such pages in a browser.

mod common;

use std::fmt::Write as _;

use common::Scratch;
use serde_json::Value;

/// Points in the plane, with a label whose name is markup.
fn scratch() -> Scratch {
    let s = Scratch::new();
    let names = ["<b>cat</b>", "dog", "truck"];
    let rows: Vec<(f64, usize)> = (0..60).map(|row| (f64::from(row) * 0.61, row as usize % 3)).collect();
    let (mut x, mut y) = (String::new(), String::new());
    for (t, class) in rows {
        writeln!(x, "{},{}", class as f64 + 0.4 * t.sin(), t.cos()).unwrap();
        writeln!(y, "{}", names[class]).unwrap();
    }
    s.write("x.csv", x);
    s.write("y.txt", y);
    s.write("names.txt", names.join("\n") + "\n");
    s.write("words.vec", "<b>cat</b> 1 0 0.2\ndog 0.9 0.1 0\ntruck 0 1 0.1\n");
    s
}

const DATA: &str =
    "--train-x x.csv --train-y y.txt --label-names names.txt --label-vectors words.vec --epochs 20";
const TEST: &str = "--test-x x.csv --test-y y.txt";

/// Writes a page and checks that it loads nothing from elsewhere and has these pictures, each also as files.
fn page(s: &Scratch, folder: &str, pictures: &[&str]) -> String {
    let printed = s.out(&format!("report {folder}"));
    assert!(printed.contains(&format!("{folder}/report.html")), "{printed}");
    let page = s.read(&format!("{folder}/report.html"));
    // An XML namespace is a name, not an address to load.
    let addresses = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!addresses.contains("http") && !addresses.contains("src="), "{page}");
    assert_eq!(page.matches("<figure>").count(), pictures.len());
    assert_eq!(page.matches("<svg role=\"img\"").count(), pictures.len());
    for name in pictures {
        for ending in ["svg", "png"] {
            let file = format!("{folder}/{name}.{ending}");
            assert!(s.path(&file).metadata().unwrap().len() > 500, "{file}");
        }
    }
    page
}

#[test]
fn a_model_tells_of_its_training_its_metric_and_its_mistakes() {
    let s = scratch();
    let printed = s.out(&format!("train {DATA} {TEST} --validation 0.2 --groups 3 --run tags"));
    assert!(printed.contains("rot report tags"), "{printed}");
    let text = page(&s, "tags", &["loss", "validation", "metric"]);
    let parts = [
        "Learning curves",
        "The metric between predictions",
        "Confused labels",
        "60 of 60 test rows",
        "On 60 test rows its first label is right for",
        "What it confuses most",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}");
    }
    assert!(!text.contains("<b>cat"), "label names must be escaped");
    // The view shows a plan, which moves all mass from the prediction to the true labels.
    let run: Value = serde_json::from_str(&s.read("tags/run.json")).unwrap();
    for item in run["items"].as_array().unwrap() {
        let truth = item["truth"].as_array().unwrap();
        let flows = item["flows"].as_array().unwrap();
        assert!(flows.iter().all(|flow| truth.contains(&flow[1])), "{item}");
        let mass: f64 = flows.iter().map(|flow| flow[2].as_f64().unwrap()).sum();
        assert!((mass + item["small"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{item}");
    }
    // With one true label, all mass that does not stay moves to it.
    let sum = |list: &Value, key: &str| -> f64 {
        list.as_array().unwrap().iter().map(|entry| entry[key].as_f64().unwrap()).sum()
    };
    let (stays, moved) = (sum(&run["items"], "stays"), sum(&run["confused"], "mass"));
    assert!((stays / 60.0 + moved - 1.0).abs() < 1e-9, "{stays} {moved}");
    // The folder has the model itself.
    assert!(s.out("inspect tags/model.safetensors").contains("3 labels"));
}

#[test]
fn a_model_without_test_rows_or_vectors_tells_what_there_is() {
    let s = scratch();
    s.out(&format!("train {DATA} --validation 0 --run bare"));
    assert!(page(&s, "bare", &["loss"]).contains("No test rows"));
    s.out(&format!("train --train-x x.csv --train-y y.txt --label-names names.txt --epochs 5 {TEST} --validation 0.2 --run plain"));
    assert!(!page(&s, "plain", &["loss", "validation"]).contains("The metric"));
    // Cross-entropy has no metric set, but its predictions still have mass to move.
    s.out(&format!("train {DATA} {TEST} --loss ce --validation 0.2 --run ce"));
    let text = page(&s, "ce", &["loss", "validation"]);
    assert!(!text.contains("The metric") && text.contains("Confused labels"));
    // The rows alone define the geometry; the folder drops the previous run.
    let bare = DATA.replace("--label-vectors words.vec", "--geometry rows");
    s.out(&format!("train {bare} {TEST} --loss srw --k 2 --validation 0.2 --run ce"));
    assert!(!s.path("ce/report.html").exists());
    assert!(page(&s, "ce", &["loss", "validation", "metric"]).contains("srw (k = 2)"));
    assert!(s.out("predict ce/model.safetensors --x x.csv --top 2 --explain").contains("mass_from"));
}

#[test]
fn a_distance_tells_its_bounds_its_metric_and_its_flows() {
    let s = scratch();
    let found = s.json("distance a.csv b.csv --metric srw --k 1 --run moved");
    let text = page(&s, "moved", &["bounds", "metric"]);
    let value = format!("{:.6}", found["value"].as_f64().unwrap());
    assert!(text.contains("From a to b") && text.contains(&value) && text.contains("row 1"), "{value}");
    // The words at the top are about the same numbers, and the machine is the last line.
    assert!(text.contains(&format!("is {value} under the metric that makes it largest")), "{text}");
    assert!(text.contains("Its bounds prove that it is accurate to"), "{text}");
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}"));
    assert!(at("class=\"summary\"") < at("<figure>") && at("class=\"command\"") < at("<dt>machine</dt>"));
    assert!(at("<dt>machine</dt>") > text.rfind("</table>").unwrap());
}

#[test]
fn shares_of_the_cost_decrease_down_the_tables() {
    let s = scratch();
    s.out("distance a.csv b.csv --run moved");
    let text = page(&s, "moved", &["bounds", "metric"]);
    let tables: Vec<&str> = text.split("share of the cost").skip(1).collect();
    assert_eq!(tables.len(), 2);
    for table in tables {
        let rows = table.split("</tbody>").next().unwrap();
        let shares: Vec<f64> = rows
            .split(" %</td>")
            .map(|part| part.rsplit('>').next().unwrap())
            .filter_map(|x| x.parse().ok())
            .collect();
        assert!(shares.len() > 1 && shares.is_sorted_by(|x, y| x >= y), "{shares:?}");
    }
}

#[test]
fn experiments_are_told_from_their_folder() {
    let s = scratch();
    s.write(
        "small.toml",
        format!(
            "title = \"A small table\"\nband = 0.05\nseeds = {{ tuned = [0, 1, 2] }}\nquick = {{ epochs = 1, seeds = [0] }}\n\
             protocols = {{ tuned = \"\" }}\n[[data]]\nname = \"points\"\noptions = \"{} {}\"\ndiffers = \"All.\"\n\
             tuning-seeds = 1\nprotocol-options = {{ tuned = \"--validation 0.3\" }}\n[[row]]\nname = \"mix\"\noptions = \"--loss mix --groups 3\"\n\
             protocols = [\"tuned\"]\npublished = {{ points = {{ auc = 0.9 }} }}\ngrid = [\"--mix-ot 1\", \"--mix-ot 2\"]\n",
            DATA.replace(" x.csv", " {data}/x.csv").replace(" y.txt", " {data}/y.txt"),
            TEST
        )
        .replace("names.txt", "{data}/names.txt")
        .replace("words.vec", "{data}/words.vec"),
    );
    s.write(
        "growth.toml",
        "title = \"Growth\"\ndiffers = \"All.\"\nepochs = 2\ndata = \"--train-x {data}/x.csv --train-y {data}/y.txt --label-names \
         {data}/names.txt --label-vectors {data}/words.vec --empty skip\"\n[[chart]]\nname = \"labels\"\nx = \"labels L\"\nvalues = [2, 3]\n\
         series = [{ name = \"ce\", options = \"--loss ce --top-labels {x}\" }]\n",
    );
    let printed = s.out("reproduce small.toml growth.toml --data . --out runs");
    assert!(printed.contains("to the power"), "{printed}");
    // Two options with the first seed, then the better option with the other seeds.
    assert_eq!(s.read("runs/small.jsonl").lines().count(), 4);
    let text = page(&s, "runs", &["small-points-tuned", "growth-labels"]);
    for part in ["A small table", "0.900", "seeds", "machine", "Growth"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn what_is_no_run_is_refused() {
    let s = scratch();
    std::fs::create_dir(s.path("empty")).unwrap();
    std::fs::create_dir(s.path("odd")).unwrap();
    let refused = |line: &str, part: &str| {
        let message = s.refusal(line);
        assert!(message.contains(part), "{message} does not contain {part}");
    };
    refused("report nowhere", "nowhere");
    refused("report empty", "run.json");
    s.write("odd/run.json", "{\"kind\": \"cake\"}");
    refused("report odd", "cake");
    s.write("odd/run.json", "{\"kind\": ");
    refused("report odd", "run.json");
    refused("report odd --out page.pdf", ".html");
    refused(&format!("train {DATA} --run x.csv"), "--run");
    refused(&format!("train {DATA} --top-labels 4"), "between 2 and the 3 labels");
    std::fs::create_dir_all(s.path("odd/model.safetensors")).unwrap();
    refused(&format!("train {DATA} --run odd"), "odd/model.safetensors");
    s.write("odd/run.json", "{\"kind\": \"distance\"}");
    refused("report odd", "value must be a number");
    s.write("mine-quick.toml", "title = \"\"");
    refused("reproduce mine-quick.toml --data . --out runs", "-quick");
    refused(&format!("train {DATA} --validation-per-class 2"), "--per-class");
}
