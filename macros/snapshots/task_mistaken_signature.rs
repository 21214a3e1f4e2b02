#[allow(unused, async_fn_in_trait, clippy::all, clippy::pedantic)]
async fn borrowed(a: &str) -> &str {
    a
}
::core::compile_error! {
    "a task's output must be owned: it is recorded, and may be handed on by another process"
}
