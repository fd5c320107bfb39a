//! What the shell needs: completions, and pages for `man`, from the definitions of the options.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;
use robust_ot_learn::data::write_atomic;

use crate::failure::Failure;
use crate::output::{make_folder, write_failure};

/// Print the completions of a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rot completions bash > ~/.local/share/bash-completion/completions/rot
  rot completions zsh > ~/.zfunc/_rot
  rot completions fish > ~/.config/fish/completions/rot.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Write the pages for man, rot.1 and one for each command
#[derive(Debug, Args)]
pub struct ManPages {
    /// The folder for the pages
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Completions {
    /// Prints the script.
    pub fn run(&self, mut command: clap::Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "rot", &mut script);
        Ok(io::stdout().lock().write_all(&script)?)
    }
}

impl ManPages {
    /// Writes the pages.
    pub fn run(&self, mut command: clap::Command) -> Result<(), Failure> {
        make_folder("DIR", &self.folder)?;
        command.build();
        let mut pages = vec![("rot".to_owned(), command.clone())];
        for part in command.get_subcommands().filter(|part| !part.is_hide_set() && part.get_name() != "help")
        {
            pages.push((format!("rot-{}", part.get_name()), part.clone()));
        }
        for (name, part) in pages {
            let page = Man::new(part.display_name(&name)).title(name.to_uppercase());
            let path = self.folder.join(format!("{name}.1"));
            write_atomic(&path, |mut out| page.render(&mut out)).map_err(write_failure)?;
        }
        Ok(())
    }
}
