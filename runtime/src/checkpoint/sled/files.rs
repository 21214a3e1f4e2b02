//! The files around the engine, and how failures of files and engine become typed errors.
//!
//! ```text
//! LOCK     held while the store is open
//! FORMAT   what wrote the store; its presence says that the store is whole
//! NEW      the store is being made, nothing in it was ever acknowledged
//! HWM      the high-water mark
//! sled/    the engine
//! ```

use std::{
    any::Any,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use fs2::FileExt;

use crate::checkpoint::CheckpointError;

/// The newest layout that this version reads, and the one that it writes.
pub(super) const FORMAT: u32 = 1;
const FORMAT_WORDS: &str = "durably sled store, format ";

/// A store's folder.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    pub(super) fn mark(&self) -> PathBuf {
        self.path.join("HWM")
    }

    pub(super) fn format(&self) -> PathBuf {
        self.path.join("FORMAT")
    }

    pub(super) fn new_store(&self) -> PathBuf {
        self.path.join("NEW")
    }

    pub(super) fn engine(&self) -> PathBuf {
        self.path.join("sled")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.engine().join("db")
    }

    /// Makes the folder and locks it, or says at once that somebody else has it.
    pub(super) fn lock(&self) -> Result<File, CheckpointError> {
        fs::create_dir_all(&self.path).map_err(|error| self.io("making the store's folder", error))?;
        if let Some(parent) = self.path.parent() {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            sync_folder(parent).map_err(|error| self.io("syncing the folder above the store", error))?;
        }
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(self.path.join("LOCK"));
        let lock = lock.map_err(|error| self.io("opening the store's lock", error))?;
        match FileExt::try_lock_exclusive(&lock) {
            Ok(()) => Ok(lock),
            Err(error) if error.kind() == fs2::lock_contended_error().kind() => {
                Err(CheckpointError::Locked { path: self.path.clone() })
            }
            Err(error) => Err(self.io("locking the store", error)),
        }
    }

    /// The format of the store; `None` if there is no `FORMAT`.
    pub(super) fn read_format(&self) -> Result<Option<u32>, CheckpointError> {
        let text = match fs::read_to_string(self.format()) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(self.damaged("FORMAT is no text")),
            Err(error) => return Err(self.io("reading FORMAT", error)),
        };
        match text.strip_prefix(FORMAT_WORDS).map(|number| number.trim_end().parse()) {
            Some(Ok(found)) if found <= FORMAT => Ok(Some(found)),
            Some(Ok(found)) => Err(CheckpointError::NewerFormat { path: self.path.clone(), found, supported: FORMAT }),
            Some(Err(_)) | None => Err(self.damaged("FORMAT is not as it was written")),
        }
    }

    pub(super) fn write_format(&self) -> Result<(), CheckpointError> {
        let fresh = self.path.join("FORMAT.new");
        let write = || {
            let mut file = File::create(&fresh)?;
            writeln!(file, "{FORMAT_WORDS}{FORMAT}")?;
            file.sync_all()?;
            fs::rename(&fresh, self.format())?;
            sync_folder(&self.path)
        };
        write().map_err(|error: io::Error| self.io("writing FORMAT", error))
    }

    pub(super) fn damaged(&self, detail: impl Into<String>) -> CheckpointError {
        CheckpointError::CorruptStore { path: self.path.clone(), detail: detail.into() }
    }

    pub(super) fn io(&self, doing: &str, error: io::Error) -> CheckpointError {
        if error.kind() == io::ErrorKind::StorageFull {
            return CheckpointError::Full { path: self.path.clone() };
        }
        CheckpointError::Io { doing: format!("{doing} ({})", self.path.display()), source: Arc::new(error) }
    }

    pub(super) fn engine_failed(&self, doing: &str, error: ::sled::Error) -> CheckpointError {
        match error {
            ::sled::Error::Io(error) => self.io(doing, error),
            ::sled::Error::Corruption { .. } => self.damaged(format!("{doing}: {error}")),
            ::sled::Error::CollectionNotFound(_) | ::sled::Error::Unsupported(_) | ::sled::Error::ReportableBug(_) => {
                CheckpointError::Other { doing: doing.to_owned(), source: Arc::new(error) }
            }
        }
    }

    /// sled panics on damage that it did not foresee.
    pub(super) fn engine_panicked(&self, doing: &str, panic: &(dyn Any + Send)) -> CheckpointError {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        self.damaged(format!("{doing}: the engine panicked: {words}"))
    }
}

/// Makes a rename or a new file in the folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    // Windows does not open folders; its file systems log renames.
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}
