//! Opening: what is there is recognised, mended where that is safe, and refused where it is not. Nothing that was
//! acknowledged is ever replaced by an empty store, unless the operator says so.

use std::{
    fs::{self, File, OpenOptions},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
    thread::sleep,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    SledOptions,
    engine::{Engine, Writes},
    faults::Faults,
    files::{self, Folder, sync_folder},
    keys,
    mark::{Found, Level, Mark},
    tally::{Status, Tally},
};
use crate::checkpoint::CheckpointError;

/// An open store that nobody uses yet. Dropped in this order: the lock is the last to go.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) engine: Engine,
    pub(super) last_thread: u64,
    pub(super) lock: File,
}

/// Reads of an earlier opening in this process may hold the engine's own lock for a moment after ours was released.
const ENGINE_LOCK_TRIES: u32 = 200;
const ENGINE_LOCK_PAUSE: Duration = Duration::from_millis(10);

pub(super) fn open(options: &SledOptions, path: &Path, faults: &Arc<Faults>) -> Result<Opened, CheckpointError> {
    let folder = Folder { path: path.to_owned() };
    let lock = folder.lock()?;
    let opened = match is_whole(&folder) {
        Ok(true) => reopen(options, &folder, faults),
        Ok(false) => create(options, &folder, 0, faults),
        Err(error) => Err(error),
    };
    let (engine, last_thread) = match opened {
        Err(CheckpointError::CorruptStore { .. }) if options.quarantine => {
            // Epochs must grow even so.
            let generation = match Mark::read(&folder.mark()) {
                Ok(Found::Level(level)) => level.generation,
                Ok(Found::Missing | Found::Damaged) | Err(_) => 0,
            };
            set_aside(&folder).map_err(|error| folder.io("setting the damaged store aside", error))?;
            create(options, &folder, generation, faults)?
        }
        opened => opened?,
    };
    Ok(Opened { engine, last_thread, lock })
}

/// Whether there is a store; if there is none, whatever an interrupted creation left is removed.
fn is_whole(folder: &Folder) -> Result<bool, CheckpointError> {
    let clean = |error| folder.io("clearing what an interrupted creation left", error);
    let is_new = folder.new_store().exists();
    match folder.read_format()? {
        Some(_) => {
            if is_new {
                remove(&folder.new_store()).map_err(clean)?;
            }
            Ok(true)
        }
        None if is_new => {
            // Nothing in it was ever acknowledged: FORMAT comes before the first commit.
            remove(&folder.engine()).and_then(|()| remove(&folder.mark())).map_err(clean)?;
            Ok(false)
        }
        None if folder.engine().exists() || folder.mark().exists() => {
            Err(folder.damaged("there is data, but FORMAT is missing"))
        }
        None => Ok(false),
    }
}

fn create(
    options: &SledOptions,
    folder: &Folder,
    generation: u32,
    faults: &Arc<Faults>,
) -> Result<(Engine, u64), CheckpointError> {
    let begin = || {
        File::create(folder.new_store())?.sync_all()?;
        sync_folder(&folder.path)
    };
    begin().map_err(|error| folder.io("making the store", error))?;
    let db = open_engine(options, folder)?;
    let opened = begin_generation(db, folder, Level { sequence: 0, generation }, Tally::default(), faults)?;
    folder.write_format()?;
    let end = remove(&folder.new_store()).and_then(|()| sync_folder(&folder.path));
    end.map_err(|error| folder.io("making the store", error))?;
    Ok(opened)
}

fn reopen(options: &SledOptions, folder: &Folder, faults: &Arc<Faults>) -> Result<(Engine, u64), CheckpointError> {
    let need = match Mark::read(&folder.mark()).map_err(|error| folder.io("reading the high-water mark", error))? {
        Found::Level(level) => level,
        Found::Missing | Found::Damaged if options.accept_rollback => Level::default(),
        Found::Missing => return Err(folder.damaged("the high-water mark HWM is missing")),
        Found::Damaged => return Err(folder.damaged("the high-water mark HWM is damaged")),
    };
    let rolled_back =
        |have| CheckpointError::RolledBack { path: folder.path.clone(), have, need: need.sequence.max(have + 1) };
    let log_bytes = match fs::metadata(folder.log()) {
        Ok(log) => log.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(folder.io("looking for the log", error)),
    };
    if log_bytes == 0 {
        if !options.accept_rollback {
            return Err(rolled_back(0));
        }
        // Settings and snapshots of a log that is gone.
        remove(&folder.engine()).map_err(|error| folder.io("clearing the empty engine", error))?;
    }
    let db = open_engine(options, folder)?;
    let status = status(&db, folder)?;
    let have = status.sequence;
    if (have < need.sequence || have == 0) && !options.accept_rollback {
        return Err(rolled_back(have));
    }
    let tally = tally(options, &db, folder, status)?;
    let stored = number(&db, folder, &keys::GENERATION)?.unwrap_or(0);
    let generation = need.generation.max(u32::try_from(stored).unwrap_or(u32::MAX));
    begin_generation(db, folder, Level { sequence: have, generation }, tally, faults)
}

/// What the last batch wrote.
fn status(db: &::sled::Db, folder: &Folder) -> Result<Status, CheckpointError> {
    match value(db, folder, &keys::SEQUENCE)? {
        None => Ok(Status::default()),
        Some(value) => Status::decode(&value).map_err(|error| folder.damaged(error.to_string())),
    }
}

/// The tally to go on with: the one that was written, if it is right or too dear to check; else, if the operator accepts
/// what is lost, that of what is there.
fn tally(options: &SledOptions, db: &::sled::Db, folder: &Folder, status: Status) -> Result<Tally, CheckpointError> {
    if status.tally.rows > options.verify_up_to {
        return Ok(status.tally);
    }
    let checked = catch_unwind(AssertUnwindSafe(|| match status.check(db, folder) {
        Ok(()) => Ok(status.tally),
        Err(_) if options.accept_rollback => Tally::of(db, folder),
        Err(error) => Err(error),
    }));
    checked.unwrap_or_else(|panic| Err(folder.engine_panicked("reading the store through", &*panic)))
}

/// Makes durable what is there, then that a new generation began; then finishes what a crash left half done.
fn begin_generation(
    db: ::sled::Db,
    folder: &Folder,
    level: Level,
    tally: Tally,
    faults: &Arc<Faults>,
) -> Result<(Engine, u64), CheckpointError> {
    let begin = || {
        let log = OpenOptions::new().read(true).write(true).open(folder.log())?;
        log.sync_all()?;
        sync_folder(&folder.engine())?;
        sync_folder(&folder.path)?;
        Ok((log, Mark::create(&folder.mark(), level)?))
    };
    let (log, mark) = begin().map_err(|error| folder.io("syncing the store", error))?;
    let generation = level.generation.checked_add(1).ok_or_else(|| folder.damaged("the generations are used up"))?;
    let level = Level { generation, ..level };
    let mut engine = Engine { db, log, mark, level, tally, folder: folder.clone(), faults: Arc::clone(faults) };
    let mut writes = Writes::default();
    writes.put(keys::GENERATION, keys::guarded(&keys::GENERATION, &u64::from(generation).to_le_bytes()));
    writes.put(keys::FORMAT, keys::guarded(&keys::FORMAT, &u64::from(files::FORMAT).to_le_bytes()));
    let finish = AssertUnwindSafe(|| engine.write(writes).and_then(|()| engine.finish_leftovers()));
    catch_unwind(finish).unwrap_or_else(|panic| Err(folder.engine_panicked("opening the store", &*panic)))?;
    // Only now: a large commit that was just finished may have made a thread.
    let last_thread = number(&engine.db, folder, &keys::LAST_THREAD)?.unwrap_or(0);
    Ok((engine, last_thread))
}

/// The recovery ladder.
fn open_engine(options: &SledOptions, folder: &Folder) -> Result<::sled::Db, CheckpointError> {
    let clear = |error| folder.io("removing the engine's snapshots", error);
    // A kill while the engine was being opened leaves these, and every later opening fails. They are of no use.
    remove_snapshots(folder, |name| name.ends_with(".generating")).map_err(clear)?;
    match try_engine(options, folder)? {
        Tried::Open(db) => Ok(db),
        Tried::BadSnapshot if remove_snapshots(folder, |_| true).map_err(clear)? => {
            match try_engine(options, folder)? {
                Tried::Open(db) => Ok(db),
                Tried::BadSnapshot => Err(folder.damaged("opening the engine: its files contradict each other")),
            }
        }
        Tried::BadSnapshot => Err(folder.damaged("opening the engine: its files contradict each other")),
    }
}

/// What came of an attempt to open the engine.
enum Tried {
    Open(::sled::Db),
    /// sled says "corruption, at no place": what it says of a damaged snapshot. Without it the log is read from the
    /// beginning. After any other error the snapshots stay, since they hold what damage of the log may have taken.
    BadSnapshot,
}

fn try_engine(options: &SledOptions, folder: &Folder) -> Result<Tried, CheckpointError> {
    let config = ::sled::Config::new()
        .path(folder.engine())
        // Only the committer writes: the engine's own flusher would write between our syncs.
        .flush_every_ms(None)
        .cache_capacity(options.cache_capacity);
    for _ in 0..ENGINE_LOCK_TRIES {
        match catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Ok(db)) => return Ok(Tried::Open(db)),
            Ok(Err(::sled::Error::Corruption { at: None, .. })) => return Ok(Tried::BadSnapshot),
            Ok(Err(::sled::Error::Io(error))) if error.to_string().contains("could not acquire lock") => {
                sleep(ENGINE_LOCK_PAUSE);
            }
            Ok(Err(error)) => return Err(folder.engine_failed("opening the engine", error)),
            Err(panic) => return Err(folder.engine_panicked("opening the engine", &*panic)),
        }
    }
    Err(CheckpointError::Locked { path: folder.engine() })
}

fn number(db: &::sled::Db, folder: &Folder, key: &[u8]) -> Result<Option<u64>, CheckpointError> {
    match value(db, folder, key)? {
        None => Ok(None),
        Some(value) => keys::number_of(key, &value).map(Some).map_err(|error| folder.damaged(error.to_string())),
    }
}

fn value(db: &::sled::Db, folder: &Folder, key: &[u8]) -> Result<Option<Vec<u8>>, CheckpointError> {
    let value = catch_unwind(AssertUnwindSafe(|| db.get(key)))
        .map_err(|panic| folder.engine_panicked("opening the store", &*panic))?
        .map_err(|error| folder.engine_failed("opening the store", error))?;
    Ok(value.map(|value| value.to_vec()))
}

/// Removes the engine's snapshots whose name is wanted; tells whether there were any.
fn remove_snapshots(folder: &Folder, wanted: impl Fn(&str) -> bool) -> io::Result<bool> {
    let mut removed = false;
    let entries = match fs::read_dir(folder.engine()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("snap.") && wanted(name)) {
            fs::remove_file(entry.path())?;
            removed = true;
        }
    }
    Ok(removed)
}

fn set_aside(folder: &Folder) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    for path in [folder.engine(), folder.mark(), folder.format()] {
        if path.exists() {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".corrupt-{now}"));
            fs::rename(&path, path.with_file_name(name))?;
        }
    }
    sync_folder(&folder.path)
}

/// Removes a file or a folder; none there is no error.
fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
