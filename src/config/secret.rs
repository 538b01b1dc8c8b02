//! Files that settings name: secrets are read at once, the others must be readable.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use secrecy::SecretString;

/// Longer than any password or key; what exceeds it is the wrong file.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// The content of a secret file, and whether every user of the machine can read it.
#[derive(Debug)]
pub(super) struct SecretFile {
    pub(super) content: SecretString,
    pub(super) world_readable: bool,
}

/// Reads the secret in `path`, without the newline that editors put at the end.
pub(super) fn read(path: &Path) -> Result<SecretFile, String> {
    let file = open(path)?;
    let metadata = file.metadata().map_err(|error| cannot_read(path, &error))?;
    let mut content = String::new();
    let mut limited = file.take(MAX_SECRET_BYTES + 1);
    limited.read_to_string(&mut content).map_err(|error| cannot_read(path, &error))?;
    if u64::try_from(content.len()).is_ok_and(|length| length > MAX_SECRET_BYTES) {
        return Err(format!("{} is longer than 64 KiB; is it the right file?", path.display()));
    }
    let line = content.strip_suffix('\n').unwrap_or(&content);
    let secret = line.strip_suffix('\r').unwrap_or(line);
    if secret.is_empty() {
        return Err(format!("{} is empty", path.display()));
    }
    if secret.contains('\0') {
        return Err(format!("{} holds a NUL byte", path.display()));
    }
    let world_readable = metadata.permissions().mode() & 0o004 != 0;
    Ok(SecretFile { content: SecretString::from(secret), world_readable })
}

/// Opens `path`, which must be a file that the daemon may read.
pub(super) fn open(path: &Path) -> Result<File, String> {
    let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(format!("{} is a directory; name a file in it", path.display()))
        }
        Ok(_) => Ok(file),
        Err(error) => Err(cannot_read(path, &error)),
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

    use secrecy::ExposeSecret;

    use super::*;

    fn read_back(content: &[u8]) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        write(&path, content).unwrap();
        read(&path).map(|secret| secret.content.expose_secret().to_owned())
    }

    #[test]
    fn exactly_one_trailing_newline_is_not_part_of_the_secret() {
        assert_eq!(read_back(b"hunter2").unwrap(), "hunter2");
        assert_eq!(read_back(b"hunter2\n").unwrap(), "hunter2");
        assert_eq!(read_back(b"hunter2\r\n").unwrap(), "hunter2");
        assert_eq!(read_back(b" hunter2 \n\n").unwrap(), " hunter2 \n");
    }

    #[test]
    fn a_secret_file_that_cannot_be_one_is_refused() {
        assert!(read_back(b"").unwrap_err().contains("empty"));
        assert!(read_back(b"\n").unwrap_err().contains("empty"));
        assert!(read_back(b"a\0b").unwrap_err().contains("NUL"));
        assert!(read_back(b"\xff").unwrap_err().contains("UTF-8"));
        assert!(read_back(&[b'a'; 65_536]).is_ok());
        assert!(read_back(&[b'a'; 65_537]).unwrap_err().contains("64 KiB"));
        assert!(read(Path::new("/")).unwrap_err().contains("directory"));
        assert!(read(Path::new("/does/not/exist")).unwrap_err().contains("cannot read"));
    }

    #[test]
    fn a_secret_that_every_user_can_read_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        write(&path, "hunter2").unwrap();
        for (mode, world_readable) in [(0o640, false), (0o644, true)] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&path).unwrap().world_readable, world_readable);
        }
    }
}
