//! Figures: `cargo test --release -p durably --lib value::tests::speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::super::{Arguments, Payload};

#[derive(Serialize, Deserialize)]
struct Draft {
    id: u64,
    title: String,
    score: f64,
    tags: Option<Vec<String>>,
    last: Option<u32>,
}

fn time<T>(what: &str, mut work: impl FnMut() -> T) {
    const ROUNDS: u32 = 1_000_000;
    let best = (0..5).map(|_| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| drop(black_box(work())));
        start.elapsed().as_nanos() / u128::from(ROUNDS)
    });
    println!("{what}: {} ns", best.min().unwrap());
}

#[test]
#[ignore = "a measurement"]
fn figures() {
    let text = "x".repeat(100);
    let draft = Draft {
        id: 7_000_000,
        title: "a title of some length".into(),
        score: 0.5,
        tags: Some(vec!["one".into(), "two".into()]),
        last: None,
    };
    time("encode a string of 100 bytes", || Payload::encode(black_box(&text)));
    time("encode a struct of 100 bytes", || Payload::encode(black_box(&draft)));
    let (recorded_text, recorded_draft) = (Payload::encode(&text).unwrap(), Payload::encode(&draft).unwrap());
    println!("{} and {} bytes", recorded_text.bytes.len(), recorded_draft.bytes.len());
    time("decode a string of 100 bytes", || black_box(&recorded_text).decode::<String>());
    time("decode a struct of 100 bytes", || black_box(&recorded_draft).decode::<Draft>());
    let push = |text: &str| {
        let mut arguments = Arguments::new();
        arguments.push("text", black_box(text)).unwrap();
        arguments
    };
    time("push a string of 20 bytes", || push(&text[..20]));
    time("push and digest a string of 20 bytes", || push(&text[..20]).digest());
    time("push and digest a string of 100 bytes", || push(&text).digest());
    time("preview", || black_box(&recorded_draft).preview(200));
}
