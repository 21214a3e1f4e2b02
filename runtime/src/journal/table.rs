//! The table of a run's claimed calls: places are reused, and a stale place is noticed by its generation.

use super::call::{Call, Slot};

/// Calls by place.
#[derive(Debug, Default)]
pub(super) struct Table {
    places: Vec<(u32, Option<Call>)>,
    free: Vec<u32>,
}

impl Table {
    pub(super) fn insert(&mut self, call: Call) -> Slot {
        if let Some(index) = self.free.pop() {
            let (generation, place) = &mut self.places[index as usize];
            *place = Some(call);
            return Slot { index, generation: *generation };
        }
        let index = u32::try_from(self.places.len()).expect("a run has fewer than 2^32 calls at once");
        self.places.push((0, Some(call)));
        Slot { index, generation: 0 }
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Call> {
        match self.places.get(slot.index as usize) {
            Some((generation, call)) if *generation == slot.generation => call.as_ref(),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> Option<&mut Call> {
        match self.places.get_mut(slot.index as usize) {
            Some((generation, call)) if *generation == slot.generation => call.as_mut(),
            _ => None,
        }
    }

    /// The places of all calls.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let places = (0_u32..).zip(&self.places);
        places
            .filter(|(_, (_, call))| call.is_some())
            .map(|(index, (generation, _))| Slot { index, generation: *generation })
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<Call> {
        let (generation, place) = self.places.get_mut(slot.index as usize)?;
        if *generation != slot.generation {
            return None;
        }
        let call = place.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(slot.index);
        Some(call)
    }
}
