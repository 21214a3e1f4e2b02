//! The table of moves (A45): 11 states, 13 events, 6 roles, each cell against a model of another form, as a pure function and
//! in the store.

use std::sync::Arc;

use super::{
    ApprovalError, Approvals, Digest, Event, Guard, Matter, Policies, Policy, PolicyRef, Principal, Proposal,
    RevisionId, Role, State,
    desk::{Actor, Checks, Move},
    machine::{Broken, Facts, Refusal, step},
    rows::Action,
};
use crate::{Runtime, checkpoint::MemoryCheckpointer};

/// The document's table, line by line: from, event, by, to.
const ALLOWED: &str = "
    t1  none                               propose    requester          pending
    t2  pending,approved,rejected,expired  supersede  requester          superseded
    t3  pending                            approve    reviewer           approved
    t4  pending                            reject     reviewer           rejected
    t5  approved                           revoke     reviewer,operator  revoked
    t6  pending,approved                   expire     clock              expired
    t7  approved                           claim      executor           executing
    t8  executing                          complete   executor           completed
    t9  executing                          fail       executor           failed
    t10 executing                          lose       executor,clock     uncertain
    t11 uncertain                          resolve    reconciler         completed|failed
    t12 uncertain                          again      reconciler         executing
    t13 uncertain                          settle     operator           completed|failed
";

/// What has to hold for each event, from the document's guards.
const GUARDED: &str = "
    propose    permission,current,digest,time
    supersede  permission,current
    approve    permission,current,digest,time,distinct
    reject     permission,current,digest,time,distinct
    revoke     permission,current
    expire     time
    claim      permission,current,digest,time
    complete   claim,lease
    fail       claim,lease
    resolve    permission,current,reliable
    again      permission,current,digest,time,idempotent
    settle     permission,current,reason
";

fn word(what: impl std::fmt::Debug) -> String {
    format!("{what:?}").to_lowercase()
}

fn name(state: Option<State>) -> String {
    state.map_or("none".to_owned(), word)
}

/// What the document says becomes of a cell; empty: refused.
fn model(from: Option<State>, event: Event, by: Role) -> Vec<String> {
    let lines = ALLOWED.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is = |list: &str, word: &str| list.split(',').any(|item| item == word);
    let found = lines
        .filter(|line| line.len() == 5)
        .find(|line| is(line[1], &name(from)) && line[2] == word(event) && is(line[3], &word(by)));
    found.map_or(Vec::new(), |line| line[4].split('|').map(str::to_owned).collect())
}

fn states() -> impl Iterator<Item = Option<State>> {
    std::iter::once(None).chain(State::ALL.into_iter().map(Some))
}

fn cells() -> Vec<(Option<State>, Event, Role)> {
    let events = |from| Event::ALL.into_iter().map(move |event| (from, event));
    let roles = |(from, event)| Role::ALL.into_iter().map(move |by| (from, event, by));
    states().flat_map(events).flat_map(roles).collect()
}

#[test]
fn a45_each_cell_of_the_table_is_as_the_document_says() {
    let mut allowed = 0;
    let cells = cells();
    assert_eq!(cells.len(), 858);
    for (from, event, by) in cells {
        let expected = model(from, event, by);
        for happened in [true, false] {
            let to = step(from, event, by, Facts { enough: true, happened, ..Facts::default() });
            let place = if happened { expected.first() } else { expected.last() };
            let wanted = place.map_or("refused".to_owned(), Clone::clone);
            let got = match to {
                Ok(to) => word(to),
                Err(Refusal::NotAllowed) => "refused".to_owned(),
                Err(refusal) => panic!("nothing is broken, and {refusal:?}"),
            };
            assert_eq!(got, wanted, "{from:?}, {event:?} by {by:?}");
        }
        allowed += usize::from(!expected.is_empty());
    }
    assert_eq!(allowed, 19);
}

#[test]
fn each_guard_alone_refuses_what_it_guards_and_nothing_else() {
    for (from, event, by) in cells() {
        if model(from, event, by).is_empty() {
            continue;
        }
        let line = GUARDED
            .lines()
            .map(str::split_whitespace)
            .find_map(|mut line| (line.next()? == word(event)).then_some(line.next()?));
        let guards = match (event, by) {
            (Event::Lose, Role::Clock) => "lease",
            (Event::Lose, _) => "claim",
            _ => line.unwrap(),
        };
        for guard in Guard::ALL {
            let facts = Facts { broken: Broken::default().unless(false, guard), enough: true, happened: true };
            let is_guarded = guards.split(',').any(|item| item == word(guard));
            let got = step(from, event, by, facts);
            assert_eq!(got == Err(Refusal::Guard(guard)), is_guarded, "{event:?} by {by:?} without {guard:?}");
            assert_eq!(got.is_ok(), !is_guarded, "{event:?} by {by:?} without {guard:?}");
        }
    }
}

#[test]
fn a_vote_that_is_not_the_last_leaves_it_as_it_is() {
    let step = |from, event, by| step(Some(from), event, by, Facts { happened: true, ..Facts::default() });
    assert_eq!(step(State::Pending, Event::Approve, Role::Reviewer), Ok(State::Pending));
    assert_eq!(step(State::Uncertain, Event::Settle, Role::Operator), Ok(State::Uncertain));
    // One rejection is enough.
    assert_eq!(step(State::Pending, Event::Reject, Role::Reviewer), Ok(State::Rejected));
}

#[test]
fn nothing_leads_back_from_an_execution_to_an_approval() {
    let begun = [State::Executing, State::Uncertain, State::Completed, State::Failed];
    for (from, event, by) in cells() {
        for facts in [true, false].map(|happened| Facts { enough: true, happened, ..Facts::default() }) {
            if let (Some(from), Ok(to)) = (from, step(from, event, by, facts))
                && begun.contains(&from)
            {
                assert!(begun.contains(&to), "{from:?}, {event:?} by {by:?}: {to:?}");
            }
        }
    }
}

fn office() -> (Approvals, RevisionId, Principal) {
    let everybody = |_: &Principal, _: Role, _: &Matter| true;
    let policies = Policies::new().with(Policy::new("p", 1, everybody).operation("pay"));
    let runtime = Runtime::builder().shared_checkpointer(Arc::new(MemoryCheckpointer::new()));
    let id = RevisionId::new("acme", "A", 1).unwrap();
    (Approvals::new(&runtime, policies), id, Principal::new("acme", "ada").unwrap())
}

/// The store's half of A45: every cell is tried on an action in that state. What is not allowed is refused by name, changes
/// nothing, and is in the audit.
#[tokio::test]
async fn every_illegal_cell_is_refused_and_audited_in_the_store() {
    for from in State::ALL {
        let (approvals, id, ada) = office();
        let until = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
        let proposal = Proposal::new(id.clone(), "pay", "t", 1, PolicyRef::new("p", 1), until);
        let pending = approvals.propose(&ada, proposal).await.unwrap();
        let into = async |state: State| {
            let desk = approvals.rows.load(&id.tenant, &id.action, approvals.clock_ms()).await.unwrap();
            let claim = super::rows::Claim {
                hash: pending.digest,
                worker: ada.clone(),
                call: None,
                lease_ms: 1,
                until_ms: u64::MAX,
                begun: true,
            };
            let action = Action { state, claim: Some(claim), ..desk.action.clone().unwrap() };
            let set = Move::new(Event::Propose, Actor::new(Role::Requester, &ada, ""), 1);
            let entry = super::desk::entry(&desk, &set, None, Some(state), 0);
            approvals.rows.save(&desk, action, vec![entry], Vec::new()).await.unwrap();
        };
        into(from).await;
        for event in Event::ALL {
            for by in Role::ALL {
                let desk = approvals.desk(&id.tenant, &id.action).await.unwrap();
                let before = desk.action.as_ref().map(|action| action.audited).unwrap();
                let actor = Actor { role: by, who: Some(&ada), method: "" };
                let asked = Move::new(event, actor, 1).digest(pending.digest).reason("a try");
                let got = approvals.apply(&desk, asked, Checks::default(), |_| {}, Vec::new()).await;
                let audit = approvals.audit(&ada, &id.action).await.unwrap();
                let last = audit.last().unwrap();
                let cell = format!("{from:?}, {event:?} by {by:?}");
                assert_eq!(audit.len() as u64, before + 1, "{cell}");
                assert_eq!((last.role(), last.event()), (by, event.to_string().as_str()), "{cell}");
                let is_allowed = !model(Some(from), event, by).is_empty();
                assert_eq!((got.is_ok(), last.is_refused()), (is_allowed, !is_allowed), "{cell}");
                if is_allowed {
                    into(from).await;
                } else {
                    let is_named = |error: &ApprovalError| !matches!(error, ApprovalError::Store(_));
                    assert!(got.as_ref().is_err_and(is_named), "{cell}: {got:?}");
                    assert_eq!(approvals.state(&ada, &id).await.unwrap(), from, "{cell}");
                }
            }
        }
    }
    // And the row of what is not there: its refusals are the tenant's.
    let (approvals, id, ada) = office();
    let mut refused = 0;
    for event in Event::ALL {
        for by in Role::ALL {
            let desk = approvals.desk(&id.tenant, &id.action).await.unwrap();
            let asked = Move::new(event, Actor::new(by, &ada, ""), 1).digest(Digest([0; 32]));
            let got = approvals.apply(&desk, asked, Checks::default(), |_| {}, Vec::new()).await;
            assert!(matches!(got, Err(ApprovalError::Forbidden)), "{event:?} by {by:?}: {got:?}");
            refused += 1;
            assert_eq!(approvals.refusals(&ada).await.unwrap().len(), refused);
        }
    }
    assert_eq!(refused, 78);
}
