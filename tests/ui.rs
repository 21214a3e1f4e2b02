//! What a user reads after each mistake in a task or an entrypoint, and what must compile.
//!
//! The `.stderr` files belong to the pinned toolchain. After a change: `TRYBUILD=overwrite cargo test -p tests --test
//! ui`, and read what came out: the caret stands at the user's token, and one mistake is one error.

#[test]
fn mistakes_are_told_where_they_are() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/task/*.rs");
    cases.compile_fail("ui/entrypoint/*.rs");
}

#[test]
fn what_is_allowed_compiles() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
}
