//! The list of threads as its classes make it up: by status, and by the moment at which somebody has to look.

use std::sync::Arc;

use crate::{
    CheckpointError, Status,
    checkpoint::{Checkpointer, Cursor, ListedThread, ThreadPage, ThreadQuery},
    storage::{self, DUE_CLASS, RESERVED_CLASSES},
};

/// How many threads are looked at at a time.
const PAGE: usize = 256;

/// The first byte of a cursor that stands among the threads that are listed by status, or by a moment.
const BY_STATUS: u8 = b's';
const BY_MOMENT: u8 = b'd';

/// A page of threads of a status, or of all. Threads that are listed by the moment at which somebody has to look at them come
/// after the others of their status. `until_ms` counts for the others only.
pub(super) async fn page(
    checkpointer: &Arc<dyn Checkpointer>,
    status: Option<Status>,
    until_ms: Option<u64>,
    after: Option<Cursor>,
    limit: usize,
) -> Result<ThreadPage, CheckpointError> {
    let (mut by_moment, mut after) = match after {
        None => (false, None),
        Some(Cursor(bytes)) => match bytes.split_first() {
            Some((&BY_STATUS, rest)) => (false, Some(Cursor(rest.to_vec()))),
            Some((&BY_MOMENT, [])) => (true, None),
            Some((&BY_MOMENT, rest)) => (true, Some(Cursor(rest.to_vec()))),
            _ => return Err(CheckpointError::BadCursor),
        },
    };
    let limit = limit.max(1);
    let mut found = ThreadPage::default();
    loop {
        let missing = limit - found.threads.len();
        let query = match status {
            Some(_) if by_moment => ThreadQuery { class: Some(DUE_CLASS), until_ms: None, after, limit: missing },
            status => ThreadQuery { class: status.map(Status::class), until_ms, after, limit: missing },
        };
        let page = checkpointer.threads(query).await?;
        let is_of_status = |listed: &ListedThread| -> Result<bool, CheckpointError> {
            match status {
                Some(status) if by_moment => Ok(storage::parse_head(&listed.thread, &listed.head)?.status == status),
                _ => Ok(true),
            }
        };
        let mut next = page.next;
        for listed in page.threads {
            if listed.listing.class >= RESERVED_CLASSES {
                // These come last, and are no threads.
                next = None;
                break;
            }
            if is_of_status(&listed)? {
                found.threads.push(listed);
            }
        }
        let mark = if by_moment { BY_MOMENT } else { BY_STATUS };
        found.next = next.map(|Cursor(bytes)| Cursor([&[mark][..], &bytes].concat()));
        if found.next.is_none() && !by_moment && status.is_some_and(may_have_a_moment) {
            by_moment = true;
            found.next = Some(Cursor(vec![BY_MOMENT]));
        }
        if found.threads.len() == limit || found.next.is_none() {
            return Ok(found);
        }
        after = found
            .next
            .as_ref()
            .map(|Cursor(bytes)| Cursor(bytes[1..].to_vec()))
            .filter(|Cursor(bytes)| !bytes.is_empty());
    }
}

/// Whether threads of this status may be listed by a moment in a class of their own.
fn may_have_a_moment(status: Status) -> bool {
    match status {
        Status::Interrupted | Status::Drained | Status::InDoubt | Status::Failed | Status::Stuck => true,
        // Those that sleep have only that class, in the order in which they are due.
        Status::Sleeping | Status::Running | Status::Completed | Status::Cancelled => false,
    }
}

/// The threads that somebody has to look at by now, and the next moment after that at which there is one. Costs what is due.
pub(super) async fn due(
    checkpointer: &Arc<dyn Checkpointer>,
    now_ms: u64,
) -> Result<(Vec<ListedThread>, Option<u64>), CheckpointError> {
    let mut found = Vec::new();
    let mut next_ms: Option<u64> = None;
    for class in [Status::Sleeping.class(), DUE_CLASS] {
        let mut after = None;
        // The first page is short: most of the time nothing is due.
        let mut limit = 1;
        'class: loop {
            let query = ThreadQuery { class: Some(class), until_ms: None, after, limit };
            let page = checkpointer.threads(query).await?;
            for listed in page.threads {
                let at_ms = listed.listing.at_ms;
                if at_ms > now_ms {
                    next_ms = Some(next_ms.map_or(at_ms, |next| next.min(at_ms)));
                    break 'class;
                }
                found.push(listed);
            }
            match page.next {
                Some(next) => (after, limit) = (Some(next), PAGE),
                None => break,
            }
        }
    }
    Ok((found, next_ms))
}
