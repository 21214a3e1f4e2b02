//! Places where a test can make the store fail or stall. Outside of this crate's tests there are none.

/// Where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// Before a batch is applied.
    Apply,
    /// Instead of syncing the log.
    Sync,
    /// Instead of writing the high-water mark.
    Mark,
}

#[cfg(not(test))]
#[derive(Debug)]
pub(super) struct Faults;

#[cfg(not(test))]
impl Faults {
    pub(super) fn new() -> Self {
        Self
    }

    #[allow(clippy::unused_self, clippy::unnecessary_wraps)] // the twin below uses both
    pub(super) fn at(&self, _: Point) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(super) use armed::{Fault, Faults, Latch};

#[cfg(test)]
mod armed {
    use std::{
        io,
        sync::{Arc, Condvar, Mutex},
    };

    use super::Point;
    use crate::checkpoint::leases::lock;

    /// What happens at a point.
    #[derive(Clone, Debug)]
    pub(in super::super) enum Fault {
        Fail(io::ErrorKind),
        /// Nothing goes on until the test opens the latch.
        Stall(Arc<Latch>),
        Panic,
    }

    /// Holds the store up at a point, and tells when it is there.
    #[derive(Debug, Default)]
    pub(in super::super) struct Latch {
        /// Reached, open.
        state: Mutex<(bool, bool)>,
        changed: Condvar,
    }

    impl Latch {
        fn pass(&self) {
            let mut state = lock(&self.state);
            state.0 = true;
            self.changed.notify_all();
            while !state.1 {
                state = self.changed.wait(state).expect("no test panics while it holds a latch");
            }
        }

        /// Waits until the store is held up.
        pub(in super::super) fn reached(&self) {
            let mut state = lock(&self.state);
            while !state.0 {
                state = self.changed.wait(state).expect("no test panics while it holds a latch");
            }
        }

        pub(in super::super) fn open(&self) {
            lock(&self.state).1 = true;
            self.changed.notify_all();
        }
    }

    #[derive(Debug, Default)]
    pub(in super::super) struct Faults(Mutex<Option<(Point, u64, Fault)>>);

    impl Faults {
        pub(in super::super) fn new() -> Self {
            Self::default()
        }

        /// Arms the n-th pass of a point from now on, counted from 1.
        pub(in super::super) fn arm(&self, point: Point, nth: u64, fault: Fault) {
            *lock(&self.0) = Some((point, nth, fault));
        }

        pub(in super::super) fn at(&self, point: Point) -> io::Result<()> {
            let fault = {
                let mut armed = lock(&self.0);
                match armed.take() {
                    Some((at, 1, fault)) if at == point => fault,
                    Some((at, nth, fault)) if at == point => {
                        *armed = Some((at, nth - 1, fault));
                        return Ok(());
                    }
                    other => {
                        *armed = other;
                        return Ok(());
                    }
                }
            };
            match fault {
                Fault::Fail(kind) => Err(kind.into()),
                Fault::Stall(latch) => {
                    latch.pass();
                    Ok(())
                }
                Fault::Panic => panic!("a fault that a test asked for"),
            }
        }
    }
}
