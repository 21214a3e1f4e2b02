//! Places in the list of threads, and the cursor between its pages.

use super::{CheckpointError, Cursor, Listing, ThreadQuery};

/// The first byte of a cursor, so that other bytes are refused.
const CURSOR: u8 = b'L';

/// A place in the list: threads with one [`Listing`] stand in the order in which they came into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) listing: Listing,
    /// The thread's number: given once, never given again.
    pub(crate) thread: u64,
}

impl Place {
    /// The bytes of a place: class, time, thread.
    pub(crate) const BYTES: usize = 1 + 8 + 8;

    /// Ordered as places are.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.listing.class;
        bytes[1..9].copy_from_slice(&self.listing.at_ms.to_be_bytes());
        bytes[9..].copy_from_slice(&self.thread.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&class, rest) = bytes.split_first()?;
        let (at_ms, thread) = rest.split_first_chunk::<8>()?;
        Some(Self {
            listing: Listing { class, at_ms: u64::from_be_bytes(*at_ms) },
            thread: u64::from_be_bytes(thread.try_into().ok()?),
        })
    }

    pub(crate) fn cursor(self) -> Cursor {
        Cursor([&[CURSOR][..], &self.to_bytes()].concat())
    }

    /// The least place of a class.
    pub(crate) fn first_of(class: u8) -> Self {
        Self { listing: Listing { class, at_ms: 0 }, thread: 0 }
    }

    /// The next place, if there is one.
    fn next(self) -> Option<Self> {
        let Self { listing: Listing { class, at_ms }, thread } = self;
        if let Some(thread) = thread.checked_add(1) {
            return Some(Self { thread, ..self });
        }
        match at_ms.checked_add(1) {
            Some(at_ms) => Some(Self { listing: Listing { class, at_ms }, thread: 0 }),
            None => class.checked_add(1).map(Self::first_of),
        }
    }
}

/// Where a query begins, and what it wants from there: a small state machine that every ordered map can drive.
#[derive(Debug)]
pub(crate) struct Walk {
    class: Option<u8>,
    until_ms: Option<u64>,
    limit: usize,
}

/// What to do with a place that the walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is wanted.
    Take,
    /// Go on from this place: nothing before it is wanted.
    Skip(Place),
    /// Nothing more is wanted.
    End,
}

impl Walk {
    /// The walk, and the place to begin at; `None` if nothing can come.
    pub(crate) fn new(query: &ThreadQuery) -> Result<(Self, Option<Place>), CheckpointError> {
        let walk = Self { class: query.class, until_ms: query.until_ms, limit: query.limit.max(1) };
        let least = Place::first_of(query.class.unwrap_or(0));
        let Some(Cursor(bytes)) = &query.after else { return Ok((walk, Some(least))) };
        let after = match bytes.split_first() {
            Some((&CURSOR, place)) => Place::from_bytes(place),
            _ => None,
        };
        let begin = after.ok_or(CheckpointError::BadCursor)?.next().map(|next| next.max(least));
        Ok((walk, begin))
    }

    /// The most threads on a page.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn step(&self, place: Place) -> Step {
        let Listing { class, at_ms } = place.listing;
        if self.class.is_some_and(|wanted| wanted != class) {
            return Step::End;
        }
        if self.until_ms.is_none_or(|until| at_ms <= until) {
            return Step::Take;
        }
        match class.checked_add(1) {
            Some(next) if self.class.is_none() => Step::Skip(Place::first_of(next)),
            _ => Step::End,
        }
    }
}
