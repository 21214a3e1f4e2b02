//! What can be proposed, and how it is shown.

use std::{
    collections::HashMap,
    time::{Duration, UNIX_EPOCH},
};

use durably::approval::{
    ApprovalError, CanonicalFault, Deceit, Delivery, Effect, PolicyRef, Proposal, RevisionId, State,
};
use serde::{Deserialize, Serialize};
use tests::on_every_checkpointer;

use super::{Office, approved, audit, session, who, worker, yes};

fn proposal<A>(office: &Office, action: &str, args: A) -> Proposal<A> {
    let id = RevisionId::new(super::TENANT, action, 1).unwrap();
    let until = UNIX_EPOCH + Duration::from_millis(office.clock.at() + 3_600_000);
    Proposal::new(id, "pay", "production", args, PolicyRef::new("payments", 1), until)
}

/// A30.
#[test]
fn what_has_no_canonical_form_is_refused_by_name_and_audited() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let deep = format!("{}0{}", "[".repeat(32), "]".repeat(32));
        let large = format!("\"{}\"", "x".repeat(1 << 20));
        let is = |fault: &CanonicalFault, name: &str| format!("{fault:?}").starts_with(name);
        for (place, (text, name)) in [
            (r#"{"a":1,"a":1}"#, "DuplicateKey"),
            (r#"{"a":9007199254740992}"#, "IntegerRange"),
            (r#"{"a":0.5}"#, "Float"),
            (r#"["\ud800"]"#, "LoneSurrogate"),
            (&deep, "TooDeep"),
            (&large, "TooLarge"),
            ("NaN", "Syntax"),
            ("", "Syntax"),
        ]
        .into_iter()
        .enumerate()
        {
            let error = approvals.propose_text(&ada, proposal(&office, "A", text)).await.unwrap_err();
            assert!(matches!(&error, ApprovalError::Canonical(error) if is(&error.fault, name)), "{name}: {error}");
            assert_eq!(approvals.refusals(&ada).await.unwrap().len(), place + 1);
        }
        let error = approvals.propose(&ada, proposal(&office, "A", f64::NAN)).await.unwrap_err();
        assert!(matches!(&error, ApprovalError::Canonical(error) if error.path == ".args"), "{error}");
        let error = approvals.propose(&ada, proposal(&office, "A", (1, u64::MAX))).await.unwrap_err();
        assert!(matches!(&error, ApprovalError::Canonical(error) if error.path == ".args[1]"), "{error}");
        // A type that does not come back as it was would be executed as something else.
        let error = approvals.propose(&ada, proposal(&office, "A", Forgets { secret: 7 })).await.unwrap_err();
        assert!(matches!(&error, ApprovalError::Canonical(_)), "{error}");
        assert!(matches!(
            approvals.state(&ada, &RevisionId::new("acme", "A", 1).unwrap()).await,
            Err(ApprovalError::Forbidden)
        ));
    });
}

#[derive(Serialize, Deserialize)]
struct Forgets {
    #[serde(skip_deserializing)]
    secret: u8,
}

/// A32.
#[test]
fn the_order_of_keys_and_spaces_do_not_count() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let one = approvals.propose_text(&ada, proposal(&office, "A", r#"{"a":1,"b":["x",null]}"#)).await.unwrap();
        let two = proposal(&office, "A", "{ \"b\" : [\"\\u0078\", null],\n\"a\":1}");
        assert_eq!(approvals.propose_text(&ada, two).await.unwrap().digest, one.digest);
        let map = |keys: [&str; 2]| keys.map(|key| (key.to_owned(), key.len())).into_iter().collect::<HashMap<_, _>>();
        let digest = |keys| proposal(&office, "A", map(keys)).digest().unwrap();
        assert_eq!(digest(["a", "bb"]), digest(["bb", "a"]));
    });
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Card {
    holder: String,
    number: String,
    codes: Vec<u32>,
}

/// A46.
#[test]
fn a_secret_is_shown_nowhere_and_bound_all_the_same() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let card = |number: &str| Card { holder: "Ada".to_owned(), number: number.to_owned(), codes: vec![987_654] };
        let with = |number: &str| proposal(&office, "A", card(number)).secret("/number").secret("/codes/0");
        let (secret, code) = ("4111111111111111", "987654");
        let pending = approvals.propose(&ada, with(secret)).await.unwrap();
        assert_ne!(with(secret).digest().unwrap(), with("4222").digest().unwrap());
        assert!(pending.view.to_string().contains("args/holder = \"Ada\""), "{}", pending.view);
        assert_eq!(pending.view.fields.iter().filter(|field| field.is_secret).count(), 2);
        let (answer, token) = yes(&pending);
        approvals.answer(&session("bob"), answer, token).await.unwrap();
        let permit = approvals.claim::<Card>(&worker("payer"), &pending.id, &pending.digest).await.unwrap();
        let debug = format!("{permit:?} {pending:?} {:?} {approvals:?}", with(secret));
        let told = format!("the receiver does not take {secret}, code {code}");
        let lost = permit.execute(async move |card, _| {
            assert_eq!(card.number, "4111111111111111");
            Effect::<()>::Unknown { why: told }
        });
        lost.await.unwrap_err();
        let seen = approvals.look(&ada, &pending.id).await.unwrap();
        assert!(seen.reason.contains("[secret]"), "{}", seen.reason);
        let said = "they paid with 4111111111111111";
        let settled = durably::approval::Settlement::Happened;
        approvals.settle(&session("olga"), &pending.id, settled, said).await.unwrap();
        let audit = approvals.audit(&ada, &pending.id.action).await.unwrap();
        let all = format!("{debug} {audit:?} {seen:?} {}", pending.view);
        for secret in [secret, code] {
            assert!(!all.contains(secret), "{all}");
        }
        // A pointer that leads nowhere would show what it should hide.
        let wrong = proposal(&office, "B", card(secret)).secret("/numbers");
        let error = approvals.propose(&ada, wrong).await.unwrap_err();
        assert!(matches!(error, ApprovalError::NoSuchSecret { .. }), "{error}");
    });
}

#[test]
fn text_that_may_deceive_is_escaped_and_told_of() {
    on_every_checkpointer(async |world| {
        let (office, ada) = (Office::new(), who("ada"));
        let approvals = office.open(&world);
        let text = "send to p\u{430}ypal\u{202e}gnp.exe".to_owned();
        let pending = approvals.propose(&ada, proposal(&office, "A", text).title("a\u{202e}b")).await.unwrap();
        let field = pending.view.fields.iter().find(|field| field.path == "args").unwrap();
        assert_eq!(field.deceits, [Deceit::Direction, Deceit::MixedScripts]);
        assert!(!pending.view.to_string().contains('\u{202e}') && !pending.view.title.contains('\u{202e}'));
        // That nobody can promise that it happens once is told too.
        assert!(pending.view.warnings.iter().any(|warning| warning.contains("exactly once")));
        let keyed = proposal(&office, "B", 1).delivery(Delivery::Keyed);
        assert_eq!(approvals.propose(&ada, keyed).await.unwrap().view.warnings, [""; 0]);
    });
}

#[test]
fn everything_that_changes_the_effect_is_in_the_digest_and_a_title_is_not() {
    let office = Office::new();
    let plain = || office.payment(1, 7);
    let digest = plain().digest().unwrap();
    let other = [
        office.payment(2, 7),
        office.payment(1, 8),
        office.payment_of("B", 1, 7),
        plain().schema(2),
        plain().option("dry_run", "no"),
        plain().content(durably::approval::ContentRef::of(b"", "text/plain")),
        plain().delivery(Delivery::Blind),
        plain().secret("/to"),
        {
            office.clock.forward(Duration::from_millis(1));
            plain()
        },
    ];
    office.clock.back(Duration::from_millis(1));
    for other in other {
        assert_ne!(other.digest().unwrap(), digest, "{other:?}");
    }
    assert_eq!(plain().title("a title").lease(Duration::ZERO).digest().unwrap(), digest);
}

#[test]
fn the_audit_has_who_did_what_and_how_they_were_authenticated() {
    on_every_checkpointer(async |world| {
        let office = Office::new();
        let approvals = office.open(&world);
        let pending = approved(&approvals, office.payment(1, 7)).await;
        let audit = audit(&approvals, &pending).await;
        let line = audit.last().unwrap().to_string();
        assert!(line.starts_with("2 revision 1: reviewer approve by") && line.ends_with("bob: approved"), "{line}");
        assert_eq!((audit[0].from(), audit[0].to()), (None, Some(State::Pending)));
        assert!(matches!(approvals.audit(&who("nobody"), &pending.id.action).await, Err(ApprovalError::Forbidden)));
    });
}
