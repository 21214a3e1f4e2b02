//! A call whose value equal calls share: looks whether it is there, waits for whoever makes it, or makes it.

use std::{
    future::{Future, pending, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use super::TaskSpec;
use crate::{
    CachePolicy, RunError,
    cache::{self, CacheKey, Entry, Flight, Landed, Lead, Turn, Unusable},
    journal::Slot,
    output::{OutputCodec, Recorded},
    scope::Run,
    value::{Arguments, Payload},
};

/// A value that is to be made, and then shared.
pub(super) struct Making {
    key: CacheKey,
    ttl: Option<Duration>,
    /// How often the cache had been cleared by then.
    cleared: u64,
    /// Gives up when it is dropped.
    lead: Option<Leading>,
}

struct Leading(Arc<Lead>);

impl Drop for Leading {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// Looks for the value, and waits while another call of this process makes it. `None`: the call was given it; else the
/// body has to make it.
pub(super) async fn look_up<T>(
    run: &Arc<Run>,
    slot: Slot,
    spec: &'static TaskSpec,
    codec: OutputCodec<T>,
    policy: CachePolicy,
) -> Option<Making> {
    let CachePolicy { ttl, key, version } = policy;
    let digest = match &key {
        Some(key) => Some(Arguments::key(key).digest()),
        None => run.with_call(slot, |call| call.digest),
    };
    let Some(digest) = digest else { return pending().await };
    let key = CacheKey::new(spec.name, spec.definition.module, version, &digest);
    let flights = &run.environment.flights;
    loop {
        let mut making = Making { key, ttl, cleared: flights.cleared(), lead: None };
        // A call in a task's body neither leads nor waits, so that no two can wait for each other.
        if !run.is_inner(slot) {
            match flights.join(key) {
                Turn::Waits(flight) => match landed(run, slot, flight).await {
                    Some(value) if give(run, slot, spec, codec, value.clone()) => return None,
                    // Made by a task of this name that gives something else.
                    Some(_) => return Some(making),
                    None => continue,
                },
                Turn::Leads(lead) => {
                    run.leads(slot, lead.clone());
                    making.lead = Some(Leading(lead));
                }
            }
        }
        match cache::read(&run.environment.checkpointer, key, run.environment.now_ms()).await {
            Ok(Some(value)) => {
                if give(run, slot, spec, codec, value.clone()) {
                    if let Some(Leading(lead)) = &making.lead {
                        lead.land(&value);
                    }
                    return None;
                }
            }
            Ok(None) => {}
            Err(Unusable::Damaged(reason)) => run.cache_failed(slot, &reason),
            Err(Unusable::Store(error)) => {
                run.fail(error.into());
                return pending().await;
            }
        }
        // A drain may have begun since: then the body does not.
        if poll_fn(|cx| Poll::Ready(run.poll_held_back(slot, cx).is_ready())).await {
            drop(making);
            return pending().await;
        }
        return Some(making);
    }
}

/// Waits until somebody else has made the value; `None`: it does not come from there. In a runtime that drains nothing
/// comes.
async fn landed(run: &Arc<Run>, slot: Slot, mut flight: Flight) -> Option<Payload> {
    let came = {
        let mut landed = pin!(flight.wait_for(|landed| !matches!(landed, Landed::InTheAir)));
        poll_fn(|cx| match landed.as_mut().poll(cx) {
            Poll::Ready(Ok(landed)) => Poll::Ready(Some(landed.clone())),
            Poll::Ready(Err(_)) => Poll::Ready(Some(Landed::GivenUp)),
            Poll::Pending => run.poll_held_back(slot, cx).map(|()| None),
        })
        .await
    };
    match came {
        Some(Landed::Value(value)) => Some(value),
        Some(Landed::GivenUp | Landed::InTheAir) => None,
        None => pending().await,
    }
}

/// Gives the call a shared value; not if it is of another type.
fn give<T>(run: &Arc<Run>, slot: Slot, spec: &TaskSpec, codec: OutputCodec<T>, value: Payload) -> bool {
    let recorded = Recorded::Value(value);
    match (codec.decode)(&recorded, spec.name) {
        Ok(_) => {
            run.finish_cached(slot, recorded);
            true
        }
        Err(error) => {
            run.cache_failed(slot, &error.to_string());
            false
        }
    }
}

impl Making {
    /// Keeps the value that was made, and hands it to those that wait. A value whose body asked a question is its own
    /// call's alone.
    pub(super) async fn keep(self, run: &Run, slot: Slot, spec: &TaskSpec, value: &Payload) {
        if run.with_call(slot, |call| call.asked).unwrap_or(true) {
            return;
        }
        let now = run.environment.now_ms();
        let ttl = self.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let expires_ms = ttl.map(|ttl| now.saturating_add(ttl));
        let written = match cache::write(self.key, &Entry { task: spec.name, expires_ms, value }) {
            Ok(commit) => {
                let checkpointer = &run.environment.checkpointer;
                match run.environment.flights.commit(self.cleared, checkpointer, commit) {
                    Some(ticket) => ticket.await,
                    // It was begun before the cache was cleared: it counts for this call alone.
                    None => return,
                }
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => {
                if let Some(Leading(lead)) = &self.lead {
                    lead.land(value);
                }
            }
            // The call itself has its value; if the store is broken its record tells so.
            Err(error) => run.cache_failed(slot, &RunError::from(error).to_string()),
        }
    }
}
