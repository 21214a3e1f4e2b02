//! Reads: of one moment, copied out, and of nothing that is not durable.

use super::{
    Shared,
    flight::Sight,
    keys::{self, Meta},
    large,
    tally::Status,
};
use crate::{
    ThreadId,
    checkpoint::{
        CheckpointError, Key, ListedThread, Rows, ThreadPage, ThreadQuery,
        listing::{Place, Step, Walk},
    },
};

impl Shared {
    /// Reads rows of this thread (`None`: the list of threads) when nobody is changing them, and tells what was read when it
    /// is durable: a reader that acts on it must not find it gone after a power cut.
    fn look<T>(
        &self,
        thread: Option<&ThreadId>,
        read: impl Fn(&::sled::Db) -> Result<T, CheckpointError>,
    ) -> Result<T, CheckpointError> {
        loop {
            let store = self.db();
            let db = store.as_ref().ok_or(CheckpointError::Closed)?;
            match self.flight.look(thread) {
                Sight::Clear => return read(db),
                Sight::Landing(batch) => {
                    let answer = read(db)?;
                    drop(store);
                    self.flight.wait_for(batch)?;
                    return Ok(answer);
                }
                Sight::Partial => {
                    drop(store);
                    self.flight.wait_for_whole()?;
                }
            }
        }
    }

    pub(super) fn verify(&self) -> Result<(), CheckpointError> {
        self.look(None, |db| {
            let status =
                self.value(db, &keys::SEQUENCE)?.ok_or_else(|| keys::damaged(&keys::SEQUENCE, "it is missing"))?;
            Status::decode(&status)?.check(db, &self.folder)
        })
    }

    pub(super) fn get(&self, thread: &ThreadId, key: Key) -> Result<Option<Vec<u8>>, CheckpointError> {
        self.look(Some(thread), |db| match self.number(db, thread)? {
            Some(number) => self.value(db, &keys::row(number, key)),
            None => Ok(None),
        })
    }

    pub(super) fn scan(&self, thread: &ThreadId, first: Key, last: Key) -> Result<Rows, CheckpointError> {
        self.look(Some(thread), |db| {
            let number = match self.number(db, thread)? {
                Some(number) if first <= last => number,
                _ => return Ok(Vec::new()),
            };
            let mut rows = Vec::new();
            for row in db.range(keys::row(number, first)..=keys::row(number, last)) {
                let (key, value) = row.map_err(|error| large::reading(&self.folder, error))?;
                let key = keys::key_in(&key).ok_or_else(|| CheckpointError::Corrupt {
                    thread: Some(thread.clone()),
                    key: None,
                    detail: format!("the engine's row {key:02x?} has no key of ours"),
                })?;
                rows.push((key, value.to_vec()));
            }
            Ok(rows)
        })
    }

    pub(super) fn page(&self, query: &ThreadQuery) -> Result<ThreadPage, CheckpointError> {
        let (walk, begin) = Walk::new(query)?;
        self.look(None, |db| begin.map_or(Ok(ThreadPage::default()), |begin| self.walk(db, &walk, begin)))
    }

    fn walk(&self, db: &::sled::Db, walk: &Walk, mut begin: Place) -> Result<ThreadPage, CheckpointError> {
        let mut page = ThreadPage::default();
        let mut last = None;
        'walk: loop {
            for key in db.range(keys::place(begin)..keys::PLACES_END.to_vec()).keys() {
                let key = key.map_err(|error| large::reading(&self.folder, error))?;
                let place = keys::place_in(&key).ok_or_else(|| keys::damaged(&key, "it is no place in the list"))?;
                match walk.step(place) {
                    Step::End => return Ok(page),
                    Step::Skip(place) => {
                        begin = place;
                        continue 'walk;
                    }
                    Step::Take if page.threads.len() == walk.limit() => {
                        page.next = last.map(Place::cursor);
                        return Ok(page);
                    }
                    Step::Take => page.threads.push(self.listed(db, place)?),
                }
                last = Some(place);
            }
            return Ok(page);
        }
    }

    fn listed(&self, db: &::sled::Db, place: Place) -> Result<ListedThread, CheckpointError> {
        let key = keys::meta(place.thread);
        let meta = self.value(db, &key)?.ok_or_else(|| keys::damaged(&key, "it is missing"))?;
        let Meta { listing, thread } = Meta::decode(&key, &meta)?;
        if listing != Some(place.listing) {
            return Err(keys::damaged(&key, "the thread is listed in another place"));
        }
        let head = self.value(db, &keys::row(place.thread, Key::Head))?.unwrap_or_default();
        Ok(ListedThread { thread, listing: place.listing, head })
    }

    fn value(&self, db: &::sled::Db, key: &[u8]) -> Result<Option<Vec<u8>>, CheckpointError> {
        let value = db.get(key).map_err(|error| large::reading(&self.folder, error))?;
        Ok(value.map(|value| value.to_vec()))
    }
}
