//! Tells the crate which revision it is built from and by which compiler.
//!
//! `KAFKA_DELAY_REVISION` in the environment wins: release builds set it, and so stay reproducible
//! when the source has no `.git`. Otherwise git is asked; without an answer it is "unknown".

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=KAFKA_DELAY_REVISION");
    // Every commit and checkout appends to this file. A missing path would make cargo run this
    // script on each build, hence the check.
    let head_log = ".git/logs/HEAD";
    if Path::new(head_log).exists() {
        println!("cargo:rerun-if-changed={head_log}");
    }

    let revision = env::var("KAFKA_DELAY_REVISION")
        .ok()
        .filter(|revision| !revision.is_empty())
        .or_else(git_revision)
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=KAFKA_DELAY_REVISION={revision}");

    // "rustc 1.95.0 (59807616e 2026-04-14)" -> "1.95.0"
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = output_of(Command::new(compiler).arg("--version"))
        .and_then(|line| line.split(' ').nth(1).map(str::to_owned))
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=KAFKA_DELAY_RUSTC={version}");
}

/// The commit of this repository, never of one that merely contains the source.
fn git_revision() -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    output_of(Command::new("git").args(["rev-parse", "--short=12", "HEAD"]))
}

fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
