//! What the attributes become, as golden files. After a change: `SNAPSHOTS=overwrite cargo test -p durably-macros`, and
//! read the difference.

use std::{env, fs, path::Path};

use proc_macro2::TokenStream;
use quote::quote;

use crate::expand;

/// Compares with `snapshots/NAME.rs`.
#[track_caller]
fn check(name: &str, expansion: TokenStream) {
    let file = syn::parse2(expansion).expect("an expansion is a file of items");
    let expansion = prettyplease::unparse(&file);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(name).with_extension("rs");
    if env::var_os("SNAPSHOTS").is_some_and(|action| action == "overwrite") {
        fs::write(&path, expansion).expect("the snapshot can be written");
        return;
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == expansion, "{} is another one now:\n{expansion}", path.display());
}

#[track_caller]
fn task(name: &str, options: TokenStream, item: TokenStream) {
    check(name, expand::task(options, item));
}

#[track_caller]
fn entrypoint(name: &str, options: TokenStream, item: TokenStream) {
    check(name, expand::entrypoint(options, item));
}

#[test]
fn a_task_borrows_its_arguments() {
    let item = quote! {
        /// Fetches a page.
        pub async fn fetch(url: &str) -> anyhow::Result<String> {
            get(url).await
        }
    };
    task("task", quote!(), item);
}

#[test]
fn a_task_without_anything() {
    task(
        "task_empty",
        quote!(),
        quote!(
            async fn nothing() {}
        ),
    );
}

#[test]
fn a_retried_task_clones_for_each_attempt() {
    let options = quote! {
        retry(max_attempts = 5, initial_interval = "200ms", retry_on = is_transient),
        retry(max_attempts = 2, backoff_factor = 3, max_interval = "1m 30s", jitter = false),
        timeout = "1.5s",
        name = "fetch-page"
    };
    let item = quote! {
        async fn fetch(url: &str, headers: Headers) -> Result<String, FetchError> {
            get(url, headers).await
        }
    };
    task("task_retry", options, item);
}

#[test]
fn a_task_that_runs_at_most_once_finds_out_with_arguments_of_its_own() {
    let options = quote!(at_most_once, reconcile = bank::find, retry(max_attempts = 2), timeout = "10s");
    let item = quote! {
        async fn transfer(&self, order: &Order, cents: u64) -> anyhow::Result<Receipt> {
            self.bank.transfer(order, cents).await
        }
    };
    task("task_once", options, item);
}

#[test]
fn a_cached_task_makes_its_key_before_its_body_takes_the_arguments() {
    let options = quote!(skip(client), cache(ttl = "1h", key = "{order.id}", version = 2), idle_timeout = "10s");
    let item = quote! {
        async fn price(client: &Client, order: Order) -> anyhow::Result<u64> {
            client.price(order).await
        }
    };
    task("task_cache", options, item);
}

#[test]
fn a_skipped_argument_is_not_pushed() {
    let item = quote! {
        async fn summarise(llm: &Llm, pages: &[String]) -> Result<Draft, LlmError> {
            llm.ask(pages).await
        }
    };
    task("task_skip", quote!(skip(llm)), item);
}

#[test]
fn a_key_stands_for_all_arguments() {
    let item = quote!(
        async fn charge(order: &Order, attempt: u8) -> u64 {
            1
        }
    );
    task("task_key", quote!(key = "{order.id}/{attempt:03}"), item);
}

#[test]
fn a_blocking_task_owns_its_arguments() {
    task(
        "task_blocking",
        quote!(blocking),
        quote!(
            fn hash(bytes: Vec<u8>) -> u64 {
                sum(bytes)
            }
        ),
    );
}

#[test]
fn a_blocking_task_can_be_retried() {
    let item = quote!(
        fn hash(mut bytes: Vec<u8>) -> anyhow::Result<u64> {
            sum(bytes)
        }
    );
    task("task_blocking_retry", quote!(blocking, retry), item);
}

#[test]
fn a_method_outlives_its_call() {
    let item = quote! {
        pub(crate) async fn get<'a, T: Serialize>(&self, of: &'a T, context: Context<'_>, list: &mut Vec<&str>) -> u8
        where
            T: Sync,
        {
            self.count(of, context, list)
        }
    };
    task("task_method", quote!(), item);
}

#[test]
fn a_declaration_has_no_body() {
    let item = quote! {
        /// Declared.
        async fn get(&self, url: &str) -> anyhow::Result<String>;
    };
    let method = expand::task(quote!(), item);
    check("task_declaration", quote!(trait Get { #method }));
}

#[test]
fn a_pattern_is_taken_apart_in_the_body() {
    let item = quote!(
        async fn sum((a, b): (u32, u32), _: u8, mut c: u32, r#in: u32) -> u32 {
            a + b + c
        }
    );
    task("task_patterns", quote!(), item);
}

#[test]
fn an_anonymous_type_outlives_the_call() {
    let item = quote!(
        async fn show(by: impl Display + Serialize, of: &impl Serialize, f: impl Fn(&str)) -> String {
            by
        }
    );
    task("task_impl_trait", quote!(skip(f)), item);
}

#[test]
fn a_mistaken_option_keeps_the_task() {
    task(
        "task_mistaken_option",
        quote!(tiemout = "1s"),
        quote!(
            async fn nothing() {}
        ),
    );
}

#[test]
fn a_mistaken_signature_keeps_the_function() {
    task(
        "task_mistaken_signature",
        quote!(),
        quote!(
            async fn borrowed(a: &str) -> &str {
                a
            }
        ),
    );
}

#[test]
fn an_entrypoint_is_a_type_and_a_call() {
    let item = quote! {
        /// A digest.
        pub async fn digest(urls: Vec<String>, #[previous] last: Option<Draft>) -> anyhow::Result<Draft> {
            work(urls, last).await
        }
    };
    entrypoint("entrypoint", quote!(), item);
}

#[test]
fn an_entrypoint_saves_something_else() {
    let item = quote!(
        async fn flow(n: u8) -> Result<Final<Draft, Saved>, FlowError> {
            work(n).await
        }
    );
    entrypoint("entrypoint_final", quote!(name = "the-flow", version = 2), item);
}

#[test]
fn an_entrypoint_is_run_again() {
    let options = quote! {
        retry(max_attempts = 5, retry_on = is_transient),
        retry(max_attempts = 2, initial_interval = "1s"),
        max_concurrency = 8
    };
    let item = quote!(
        async fn flow(n: u8) -> Result<u8, FlowError> {
            work(n).await
        }
    );
    entrypoint("entrypoint_retry", options, item);
}

#[test]
fn an_entrypoint_without_anything() {
    entrypoint(
        "entrypoint_empty",
        quote!(),
        quote!(
            async fn flow() {}
        ),
    );
}

#[test]
fn a_clock_in_an_entrypoint_is_told_and_kept() {
    entrypoint(
        "entrypoint_clock",
        quote!(),
        quote!(
            async fn flow() -> u64 {
                elapsed(Instant::now())
            }
        ),
    );
}
