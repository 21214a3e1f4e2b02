//! A thread as a file: everything that its journal has, in a form that is told by its first line, checked byte by byte,
//! and the same above every backend.
//!
//! ```text
//! durably thread, format 1\n
//! frame = length u32 LE | crc32 u32 LE | bytes       the thread's name, then one frame a row
//! row   = key length u8 | key | payload
//! 0 u32 | SHA-256 of all before
//! ```

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{
    CheckpointError, RunError, ThreadId,
    checkpoint::{Key, Rows},
    journal::{Names, Record, json_text},
    storage,
};

const BEGIN: &[u8] = b"durably thread, format ";
const FORMAT: u32 = 1;
const DIGEST: usize = 32;

/// A thread with all its runs, as [`Thread::export`](crate::Thread::export) reads it and
/// [`Runtime::import`](crate::Runtime::import) writes it.
///
/// ```
/// use durably::{Runtime, ThreadFile, entrypoint, task};
///
/// #[task]
/// async fn double(n: u32) -> u32 { n * 2 }
///
/// #[entrypoint]
/// async fn quadruple(n: u32) -> u32 { double(double(n).await).await }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let runtime = Runtime::builder().memory();
/// let thread = runtime.thread("sums")?;
/// thread.invoke(quadruple(3)).await?;
/// let bytes = thread.export().await?.to_bytes(); // write them to a file
///
/// let elsewhere = Runtime::builder().memory();
/// let thread = elsewhere.import(&ThreadFile::from_bytes(&bytes)?).await?;
/// assert_eq!(thread.resume(quadruple).await?.completed(), Some(12));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ThreadFile {
    pub(crate) thread: ThreadId,
    /// Whole items, each under the key of its first chunk, in order.
    pub(crate) items: Rows,
}

/// Why a file was not imported; nothing was stored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The bytes are not those of an exported thread.
    NotAThread,
    /// The file was written by a newer version of this crate.
    Newer {
        /// The format found.
        found: u32,
        /// The newest format that this version reads.
        supported: u32,
    },
    /// The file ends too early.
    Truncated {
        /// How many bytes there are.
        bytes: usize,
    },
    /// The file is damaged.
    Damaged {
        /// Where, in bytes from the beginning.
        at: usize,
        /// What is wrong.
        detail: String,
    },
    /// There is a thread of this name already.
    Exists {
        /// The thread.
        thread: ThreadId,
    },
    /// The store did not take it.
    Run(RunError),
}

impl ThreadFile {
    /// The thread's name when it was exported.
    #[must_use]
    pub fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// The file's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [BEGIN, FORMAT.to_string().as_bytes(), b"\n"].concat();
        frame(&mut bytes, &[self.thread.as_str().as_bytes()]);
        for (key, payload) in &self.items {
            let key = key.to_bytes();
            // A key has at most 26 bytes.
            frame(&mut bytes, &[&[u8::try_from(key.len()).unwrap_or(u8::MAX)], &key, payload]);
        }
        bytes.extend(0_u32.to_le_bytes());
        let digest = Sha256::digest(&bytes);
        bytes.extend(digest);
        bytes
    }

    /// Reads a file's bytes, all of them checked.
    ///
    /// # Errors
    ///
    /// [`ImportError`] for anything that [`to_bytes`](Self::to_bytes) did not write, and for a newer format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImportError> {
        let rest = bytes.strip_prefix(BEGIN).ok_or(ImportError::NotAThread)?;
        let end = rest.iter().take(12).position(|byte| *byte == b'\n').ok_or(ImportError::NotAThread)?;
        let format = std::str::from_utf8(&rest[..end]).ok().and_then(|format| format.parse().ok());
        match format.ok_or(ImportError::NotAThread)? {
            FORMAT => {}
            found => return Err(ImportError::Newer { found, supported: FORMAT }),
        }
        let mut frames = Frames { bytes, at: BEGIN.len() + end + 1 };
        let damaged = |at: usize, detail: &str| ImportError::Damaged { at, detail: detail.to_owned() };
        let at = frames.at;
        let name = frames.next()?.ok_or_else(|| damaged(at, "it has no thread"))?;
        let thread = std::str::from_utf8(name).ok().and_then(|name| ThreadId::new(name).ok());
        let thread = thread.ok_or_else(|| damaged(at, "the thread's name is none"))?;
        let mut items: Rows = Vec::new();
        loop {
            let at = frames.at;
            let Some(row) = frames.next()? else { break };
            let row = row.split_first().and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)));
            let item = row.and_then(|(key, payload)| Some((Key::from_bytes(key)?, payload.to_vec())));
            let item = item.ok_or_else(|| damaged(at, "a row without a key"))?;
            if items.last().is_some_and(|(last, _)| *last >= item.0) {
                return Err(damaged(at, "its rows are not in order"));
            }
            items.push(item);
        }
        let end = frames.at;
        let digest = &bytes[end..];
        if digest.len() < DIGEST {
            return Err(ImportError::Truncated { bytes: bytes.len() });
        }
        if *digest != Sha256::digest(&bytes[..end])[..] {
            return Err(damaged(end, "its digest is wrong"));
        }
        Ok(Self { thread, items })
    }

    /// The records, each with its run.
    ///
    /// # Errors
    ///
    /// [`ImportError::Damaged`] for a record that this version cannot read.
    pub(crate) fn records(&self) -> Result<Vec<(u32, u32, Record)>, ImportError> {
        let records = self.items.iter().filter_map(|(key, payload)| match key {
            Key::Record { run, seq, .. } => Some((*run, *seq, payload)),
            Key::Head | Key::Answer { .. } | Key::Aside { .. } => None,
        });
        let mut names = Names::default();
        let read = records.map(|(run, seq, payload)| {
            let record = Record::from_bytes(payload, &mut names).map_err(|error| ImportError::Damaged {
                at: 0,
                detail: format!("record {seq} of run {run}: {}", error.0),
            })?;
            Ok((run, seq, record))
        });
        read.collect()
    }

    /// The thread for people: JSON lines, first the thread, then a line a record. Values are shown without their Rust types,
    /// so that not everything about them can be seen; [`to_bytes`](Self::to_bytes) keeps all.
    ///
    /// ```
    /// # use durably::{Runtime, entrypoint};
    /// #[entrypoint]
    /// async fn greet(name: String) -> String { format!("hello {name}") }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let thread = Runtime::builder().memory().thread("t")?;
    /// thread.invoke(greet("Ada".to_owned())).await?;
    /// let lines = thread.export().await?.to_json_lines();
    /// let lines: Vec<&str> = lines.lines().collect();
    /// assert!(lines[0].starts_with(r#"{"thread":"t","status":"completed","run":1,"#));
    /// assert!(lines[1].starts_with(r#"{"run":1,"seq":0,"kind":"start","entrypoint":"greet","version":1,"input":["Ada"],"#));
    /// assert!(lines[2].starts_with(r#"{"run":1,"seq":1,"kind":"end","how":"completed","output":"hello Ada","#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_json_lines(&self) -> String {
        let (mut lines, mut names) = (String::new(), Names::default());
        for (key, payload) in &self.items {
            let line = match key {
                Key::Head => match storage::read_head(&self.thread, payload) {
                    Ok(head) => {
                        let mut line = format!(
                            "{{\"thread\":{},\"status\":{},\"run\":{},\"entrypoint\":{},\"created_ms\":{},\"updated_ms\":{}",
                            json_text(self.thread.as_str()),
                            json_text(&head.status.to_string()),
                            head.run,
                            json_text(&head.entrypoint),
                            head.created_ms,
                            head.updated_ms
                        );
                        if let Some(reason) = &head.reason {
                            line.extend([",\"reason\":", &json_text(reason)]);
                        }
                        line + "}"
                    }
                    Err(error) => format!("{{\"damaged\":{}}}", json_text(&error.to_string())),
                },
                Key::Record { run, seq, .. } => match Record::from_bytes(payload, &mut names) {
                    Ok(record) => format!("{{\"run\":{run},\"seq\":{seq},{}}}", record.json_fields()),
                    Err(error) => {
                        format!("{{\"run\":{run},\"seq\":{seq},\"damaged\":{}}}", json_text(&error.0))
                    }
                },
                Key::Answer { question: (base, ordinal), .. } => {
                    let question = crate::CallId { base: *base, ordinal: *ordinal };
                    match storage::read_answer(payload) {
                        Some(answer) => format!(
                            "{{\"answer_to\":\"{question}\",\"value\":{},\"at_ms\":{}}}",
                            answer.value.map_or_else(|| "null".to_owned(), |value| value.to_json()),
                            answer.how.at_ms
                        ),
                        None => format!("{{\"answer_to\":\"{question}\",\"damaged\":\"not an answer\"}}"),
                    }
                }
                Key::Aside { space, id, .. } => {
                    format!("{{\"aside\":{space},\"id\":\"{id:032x}\",\"bytes\":{}}}", payload.len())
                }
            };
            lines.push_str(&line);
            lines.push('\n');
        }
        lines
    }
}

fn frame(bytes: &mut Vec<u8>, parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    // A stored item has at most 256 MiB.
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    for part in parts {
        crc.update(part);
    }
    bytes.extend(crc.finalize().to_le_bytes());
    bytes.extend(parts.concat());
}

/// Reads frame after frame.
struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Frames<'a> {
    /// The next frame; `None` after the last one.
    fn next(&mut self) -> Result<Option<&'a [u8]>, ImportError> {
        let begin = self.at;
        let length = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        if length == 0 {
            return Ok(None);
        }
        let crc = self.number()?;
        let frame = self.take(length)?;
        if crc32fast::hash(frame) != crc {
            return Err(ImportError::Damaged { at: begin, detail: "a checksum is wrong".to_owned() });
        }
        Ok(Some(frame))
    }

    fn number(&mut self) -> Result<u32, ImportError> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ImportError> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..length).ok_or(ImportError::Truncated { bytes: self.bytes.len() })?;
        self.at += length;
        Ok(taken)
    }
}

impl fmt::Debug for ThreadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadFile").field("thread", &self.thread).field("items", &self.items.len()).finish()
    }
}

impl From<CheckpointError> for ImportError {
    fn from(error: CheckpointError) -> Self {
        Self::Run(error.into())
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAThread => f.write_str("these are not the bytes of an exported thread; nothing was stored"),
            Self::Newer { found, supported } => write!(
                f,
                "the file has format {found}, this version reads format {supported}; use a newer version of durably (nothing was stored)"
            ),
            Self::Truncated { bytes } => {
                write!(f, "the file ends too early, after {bytes} bytes; export the thread again (nothing was stored)")
            }
            Self::Damaged { at, detail } => {
                write!(f, "the file is damaged at byte {at}: {detail}; export the thread again (nothing was stored)")
            }
            Self::Exists { thread } => {
                write!(f, "there is a thread {thread} already; delete it, or import under another name")
            }
            Self::Run(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Run(error) => Some(error),
            _ => None,
        }
    }
}
