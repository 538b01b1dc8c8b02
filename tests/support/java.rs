//! Apache Kafka's jars, a class data archive that halves its start, and formatted storage.
//!
//! All of it is made once under `target/kafka/<version>` and kept: `jars/` by Maven,
//! `classes.jsa` by one trial run of a broker (5 s once; a broker then starts in 1.3 s instead of
//! 2.4 s), and `formatted/`, what `StorageTool format` writes, to be copied (saves 0.8 s a node).

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::ports;
use super::process::Process;
use super::workspace::{self, FileLock};

/// The version of Kafka under test, unless `KAFKA_VERSION` in the environment names another.
pub const DEFAULT_VERSION: &str = "4.3.1";

/// The version of Kafka under test; the jars are those of `kafka/pom.xml`.
pub fn kafka_version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let version = std::env::var("KAFKA_VERSION").unwrap_or_default();
        if version.is_empty() { DEFAULT_VERSION.to_owned() } else { version }
    })
}

const INSTALL: &str = "the broker tests run a real Kafka and need Java 17 or newer and Maven \
    (Debian: apt-get install -y openjdk-17-jre-headless maven)";

const POM: &str = include_str!("kafka/pom.xml");

/// What a node is formatted with. All clusters have one id: they never meet.
const CLUSTER_ID: &str = "kafkaDelayTests0000000";

/// A laptop under load needs this; half a second to three seconds are usual.
pub const START_DEADLINE: Duration = Duration::from_secs(90);

/// A `java` command with Kafka on its class path, set for a short start and little memory.
pub fn java(heap: &str) -> Command {
    let mut command = plain_java(heap);
    command.arg(format!("-XX:SharedArchiveFile={}", archive().display()));
    // A stale archive (another Java) is ignored; it should not be warned about on every start.
    command.args(["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]);
    command
}

/// Runs one of Kafka's command line tools, for example `org.apache.kafka.tools.DumpLogSegments`,
/// and returns what it prints. Takes about a second.
#[track_caller]
pub fn run_tool(class: &str, args: &[&str]) -> String {
    run(java("128m").arg(class).args(args))
}

/// Writes the storage of a node that was never started into `data_dir`.
///
/// `properties` are the node's, `extra` further arguments of the format command.
pub fn format_storage(properties: &[(String, String)], extra: &[String], data_dir: &Path) {
    let mut hasher = DefaultHasher::new();
    (CLUSTER_ID, extra).hash(&mut hasher);
    let roles = ["node.id", "process.roles"];
    properties
        .iter()
        .filter(|(key, _)| roles.contains(&key.as_str()))
        .for_each(|p| p.hash(&mut hasher));
    let template = kafka_dir().join("formatted").join(format!("{:016x}", hasher.finish()));
    let _lock = FileLock::acquire(&kafka_dir().join("formatted.lock"));
    if !template.join("meta.properties").exists() {
        let _ = fs::remove_dir_all(&template);
        let work_dir = workspace::new_dir("format");
        let file = work_dir.join("server.properties");
        write_properties(&file, properties, &work_dir.join("data"));
        let mut format = java("128m");
        format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]);
        run(format.args(extra).arg("-c").arg(&file));
        copy_files(&work_dir.join("data"), &template);
    }
    copy_files(&template, data_dir);
}

/// Writes a `server.properties` whose data is in `data_dir`.
pub fn write_properties(file: &Path, properties: &[(String, String)], data_dir: &Path) {
    let mut text = format!("log.dirs={}\n", data_dir.display());
    for (key, value) in properties {
        text += &format!("{key}={value}\n");
    }
    fs::write(file, text).expect("target/tmp is writable");
}

fn plain_java(heap: &str) -> Command {
    let logging =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/kafka/log4j2.properties");
    let mut command = Command::new("java");
    command.arg(format!("-Xmx{heap}"));
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]);
    command.arg(format!("-Dlog4j2.configurationFile={}", logging.display()));
    command.arg("-cp").arg(class_path());
    command
}

/// All jars in a fixed order: the class data archive belongs to one exact class path.
fn class_path() -> &'static str {
    static CLASS_PATH: OnceLock<String> = OnceLock::new();
    CLASS_PATH.get_or_init(|| {
        let entries = fs::read_dir(jars()).expect("the jars were fetched");
        let mut jars: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        jars.retain(|path| path.extension().is_some_and(|extension| extension == "jar"));
        jars.sort();
        let names: Vec<String> = jars.iter().map(|path| path.display().to_string()).collect();
        names.join(":")
    })
}

fn kafka_dir() -> PathBuf {
    let dir = workspace::target_dir().join("kafka").join(kafka_version());
    fs::create_dir_all(&dir).expect("target is writable");
    dir
}

/// The directory of the jars; fetched by the first test process that asks.
fn jars() -> &'static Path {
    static JARS: OnceLock<PathBuf> = OnceLock::new();
    JARS.get_or_init(|| {
        check_java();
        let dir = kafka_dir();
        let jars = dir.join("jars");
        let complete = dir.join("complete");
        let _lock = FileLock::acquire(&dir.join("jars.lock"));
        if fs::read_to_string(&complete).is_ok_and(|pom| pom == POM) {
            return jars;
        }
        check_maven();
        let _ = fs::remove_file(archive_path());
        let _ = fs::remove_dir_all(&jars);
        let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/kafka/pom.xml");
        let mut fetch = Command::new("mvn");
        fetch.args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-f"]);
        fetch.arg(pom).arg(format!("-Dkafka.version={}", kafka_version()));
        run(fetch.arg(format!("-DoutputDirectory={}", jars.display())));
        fs::write(&complete, POM).expect("target is writable");
        jars
    })
}

fn check_java() {
    let version = Command::new("java").arg("-version").output();
    let text = version.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let text = text.unwrap_or_else(|error| error.to_string());
    // openjdk version "17.0.15" 2025-04-15
    let major = text.split('"').nth(1).and_then(|version| version.split(['.', '-']).next());
    let recent = major.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 17);
    assert!(recent, "{INSTALL}; but `java -version` says: {text}");
}

fn check_maven() {
    let version = Command::new("mvn").arg("-version").output();
    let works = version.is_ok_and(|output| output.status.success());
    assert!(works, "{INSTALL}; but `mvn -version` does not work");
}

fn archive_path() -> PathBuf {
    kafka_dir().join("classes.jsa")
}

/// The class data archive; made by the first test process that asks.
fn archive() -> &'static Path {
    static ARCHIVE: OnceLock<PathBuf> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        class_path();
        let archive = archive_path();
        let _lock = FileLock::acquire(&kafka_dir().join("classes.lock"));
        if !archive.exists() {
            make_archive(&archive);
        }
        archive
    })
}

/// Runs a broker until it has started, and has Java write down the classes it loaded.
fn make_archive(archive: &Path) {
    let dir = workspace::new_dir("classes");
    let (broker, controller) = (ports::reserve(), ports::reserve());
    let properties = [
        ("process.roles", "broker,controller".to_owned()),
        ("node.id", "1".to_owned()),
        ("controller.quorum.voters", format!("1@127.0.0.1:{}", controller.number)),
        (
            "listeners",
            format!(
                "PLAINTEXT://127.0.0.1:{},CONTROLLER://127.0.0.1:{}",
                broker.number, controller.number
            ),
        ),
        ("controller.listener.names", "CONTROLLER".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value));
    let file = dir.join("server.properties");
    write_properties(&file, &properties, &dir.join("data"));
    let mut format = plain_java("128m");
    format.args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]);
    run(format.arg(&file));
    let partial = archive.with_extension("partial");
    let mut trial = plain_java("256m");
    trial.arg(format!("-XX:ArchiveClassesAtExit={}", partial.display()));
    trial.arg("kafka.Kafka").arg(&file);
    let trial = Process::spawn("trial broker", trial, &dir.join("log"));
    let start = Instant::now();
    while !trial.log().contains("Kafka Server started") {
        assert!(trial.exit_status().is_none(), "the trial broker ended");
        assert!(start.elapsed() < START_DEADLINE, "the trial broker does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    trial.signal(libc::SIGTERM);
    trial.wait(START_DEADLINE);
    fs::rename(&partial, archive).expect("java wrote the archive");
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let line = format!("{command:?}");
    let output = command.output().unwrap_or_else(|error| panic!("{line}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {}\n{text}\n{errors}", output.status);
    text
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("target is writable");
    for entry in fs::read_dir(from).expect("the template exists").flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("target is writable");
    }
}
