#[track_caller]
#[allow(
    clippy::diverging_sub_expression,
    clippy::let_unit_value,
    clippy::multiple_bound_locations,
    clippy::needless_arbitrary_self_type,
    clippy::no_effect_underscore_binding,
    clippy::type_complexity,
    clippy::used_underscore_binding
)]
fn fetch<'durably>(
    url: &'durably str,
    headers: Headers,
) -> ::durably::TaskCall<'durably, Result<String, FetchError>> {
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
            "fetch-page",
            ::durably::__private::module_path!(),
            ::durably::__private::file!(),
            ::durably::__private::line!(),
        )
        .timeout(::durably::__private::Duration::from_millis(1500u64));
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some({
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                let __arguments = __arguments.push::<&'durably str>("url", &url);
                let __arguments = __arguments.push::<Headers>("headers", &headers);
                __arguments.finish()
            })
        } else {
            ::durably::__private::None
        },
        {
            #[allow(unused_imports)]
            use ::durably::__private::probe::{
                AsChain as _, AsNothing as _, AsTyped as _, FromDisplayed as _,
                FromNoTaskError as _, FromNothing as _, FromReported as _,
                FromSources as _, FromTaskError as _,
            };
            let __probe = ::durably::__private::probe::Probe::<FetchError>::new();
            (&&__probe).timeout();
            ::durably::__private::result_codec::<
                String,
                FetchError,
                _,
                _,
                _,
            >(
                (&&&__probe).messages(),
                (&&__probe).origin(),
                (&&&__probe).form::<FetchError>(),
            )
        },
        move || {
            ::durably::__private::Body::again(move || {
                    let url = ::durably::__private::again::<&'durably str>(&url);
                    let headers = ::durably::__private::again::<Headers>(&headers);
                    async move {
                        if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                            Result<String, FetchError>,
                        > {
                            #[allow(unreachable_code)] return __output;
                        }
                        let url = url;
                        let headers = headers;
                        #[allow(unused_braces)]
                        let __output: Result<String, FetchError> = {
                            get(url, headers).await
                        };
                        #[allow(unreachable_code)] __output
                    }
                })
                .retry(
                    ::durably::__private::RetryPolicy::new()
                        .max_attempts(5)
                        .initial_interval(
                            ::durably::__private::Duration::from_millis(200u64),
                        ),
                    ::durably::__private::retry_on::<
                        Result<String, FetchError>,
                    >(is_transient),
                )
                .retry(
                    ::durably::__private::RetryPolicy::new()
                        .max_attempts(2)
                        .backoff_factor(3.0)
                        .max_interval(
                            ::durably::__private::Duration::from_millis(90000u64),
                        )
                        .jitter(false),
                    ::durably::__private::None,
                )
        },
    )
}
