//! Each kind of error through its record and back.

use std::{error::Error, fmt};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Failure, OutputCodec, Recorded, TaskError, TaskErrorKind, plain_codec,
    probe::{
        AsChain as _, AsTyped as _, FromDisplayed as _, FromNoTaskError as _, FromNothing as _, FromReported as _,
        FromSources as _, FromTaskError as _, Probe,
    },
    result_codec,
};

/// What the macros write at an output's type.
macro_rules! codec {
    ($value:ty, $error:ty) => {{
        let probe = Probe::<$error>::new();
        #[allow(clippy::needless_borrow)]
        result_codec::<$value, $error, _, _, _>((&&&probe).messages(), (&&probe).origin(), (&&&probe).form::<$error>())
    }};
}

/// An error of serde's and thiserror's.
#[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
enum Full {
    #[error("no page {0}")]
    Missing(u8),
    #[error("a task")]
    Task(#[from] TaskError),
}

/// Messages only.
#[derive(Debug, thiserror::Error)]
enum Chained {
    #[error("the page is broken")]
    Broken(#[source] fmt::Error),
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// A value only.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Silent {
    code: u8,
}

fn failure<T>(codec: &OutputCodec<T>, output: &T) -> Failure {
    match (codec.encode)(output).expect("it is recorded") {
        Recorded::Failure(failure) => failure,
        Recorded::Value(value) => panic!("recorded as the value {value:?}"),
    }
}

fn back<T>(codec: &OutputCodec<T>, recorded: Recorded) -> T {
    (codec.decode)(&recorded, "fetch").expect("it comes back")
}

fn through<T>(codec: &OutputCodec<T>, output: &T) -> T {
    back(codec, (codec.encode)(output).expect("it is recorded"))
}

#[test]
fn a_value_is_recorded_without_its_ok() {
    let (fallible, plain) = (codec!(u32, Full), plain_codec::<u32>());
    let recorded = (fallible.encode)(&Ok(7)).expect("it is recorded");
    assert_eq!(back(&plain, recorded.clone()), 7);
    assert_eq!(back(&fallible, recorded), Ok(7));
}

#[test]
fn a_typed_error_comes_back_as_it_was() {
    let codec = codec!(u32, Full);
    assert_eq!(through(&codec, &Err(Full::Missing(3))), Err(Full::Missing(3)));
    let failure = failure(&codec, &Err(Full::Missing(3)));
    assert_eq!(failure.messages(), ["no page 3"]);
    assert_eq!(failure.decode::<Full>().expect("it is typed"), Ok(Full::Missing(3)));
}

#[test]
fn a_typed_error_needs_no_message() {
    let codec = codec!(u32, Silent);
    assert_eq!(through(&codec, &Err(Silent { code: 4 })), Err(Silent { code: 4 }));
    let failure = failure(&codec, &Err(Silent { code: 4 }));
    assert!(failure.messages().is_empty());
    assert!(failure.to_string().contains('4'), "{failure}");
    assert!(codec.from_error.is_none());
}

#[test]
fn anyhow_keeps_its_causes() {
    let codec = codec!(u32, anyhow::Error);
    let original = anyhow::anyhow!("dns").context("no answer").context("no page");
    let printed = format!("{original:#}");
    let handed_on = through(&codec, &Err(original)).expect_err("it failed");
    assert_eq!(format!("{handed_on:#}"), printed);
    let error = handed_on.downcast::<TaskError>().expect("it is a task's");
    assert_eq!((error.task(), error.is_timeout()), ("fetch", false));
    assert_eq!(error.messages().collect::<Vec<_>>(), ["no page", "no answer", "dns"]);
}

#[test]
fn a_boxed_error_keeps_its_causes() {
    let codec = codec!((), Box<dyn Error + Send + Sync>);
    let original: Box<dyn Error + Send + Sync> = Box::new(Chained::Broken(fmt::Error));
    let handed_on = through(&codec, &Err(original)).expect_err("it failed");
    assert_eq!(handed_on.to_string(), "the page is broken");
    assert_eq!(handed_on.source().expect("its cause").to_string(), fmt::Error.to_string());
}

#[test]
fn an_enum_takes_a_task_error_in() {
    let codec = codec!((), Chained);
    let handed_on = through(&codec, &Err(Chained::Broken(fmt::Error))).expect_err("it failed");
    let Chained::Task(error) = handed_on else { panic!("not a task's: {handed_on:?}") };
    assert_eq!(error.messages().collect::<Vec<_>>(), ["the page is broken", &fmt::Error.to_string()]);
}

#[test]
fn a_timeout_is_still_one_after_its_record() {
    let error = TaskError::timed_out("fetch", std::time::Duration::from_secs(30), std::time::Duration::from_secs(31));
    let recorded = Recorded::Failure(Failure::from(&error));
    let Err(Full::Task(typed)) = back(&codec!(u8, Full), recorded.clone()) else { panic!("not a task's") };
    let Err(Chained::Task(chained)) = back(&codec!(u8, Chained), recorded) else { panic!("not a task's") };
    for handed_on in [typed, chained] {
        assert!(handed_on.is_timeout());
        assert_eq!(handed_on.to_string(), "task `fetch` took longer than its timeout of 30s");
    }
}

#[test]
fn a_record_of_messages_outlives_a_derive() {
    let before = failure(&codec!(u8, anyhow::Error), &Err(anyhow::anyhow!("dns").context("no page")));
    let Err(Full::Task(error)) = back(&codec!(u8, Full), Recorded::Failure(before.clone())) else {
        panic!("not a task's")
    };
    assert_eq!(error.messages().collect::<Vec<_>>(), ["no page", "dns"]);

    let refused = (codec!(u8, Silent).decode)(&Recorded::Failure(before), "fetch").expect_err("it cannot be made");
    let said = refused.to_string();
    assert!(said.contains("no page") && said.contains("From<durably::TaskError>"), "{said}");
}

#[test]
fn a_typed_record_outlives_the_derive() {
    let before = failure(&codec!(u8, Silent), &Err(Silent { code: 4 }));
    let handed_on = back(&codec!(u8, anyhow::Error), Recorded::Failure(before)).expect_err("it failed");
    assert!(handed_on.to_string().contains('4'), "{handed_on}");
}

#[test]
fn a_failure_is_no_plain_value() {
    let before = failure(&codec!(u8, Full), &Err(Full::Missing(1)));
    let refused = (plain_codec::<u8>().decode)(&Recorded::Failure(before), "fetch").expect_err("it failed");
    assert!(refused.to_string().contains("no longer a `Result`"), "{refused}");
}

#[test]
fn a_generic_error_is_asked_through_its_bounds() {
    fn typed<E: Serialize + DeserializeOwned>() -> OutputCodec<Result<u8, E>> {
        codec!(u8, E)
    }
    fn chained<E: fmt::Display + From<TaskError>>() -> OutputCodec<Result<u8, E>> {
        codec!(u8, E)
    }
    assert!(failure(&typed::<Full>(), &Err(Full::Missing(1))).typed.is_some());
    assert!(failure(&chained::<Full>(), &Err(Full::Missing(1))).typed.is_none());
}

#[test]
fn sources_in_a_circle_end() {
    #[derive(Debug)]
    struct Circle;
    impl fmt::Display for Circle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("again")
        }
    }
    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&Circle)
        }
    }
    let failure = failure(&codec!(u8, anyhow::Error), &Err(Circle.into()));
    assert!((2..=65).contains(&failure.messages().len()));
    assert_eq!(failure.kind, TaskErrorKind::Failed);
}
