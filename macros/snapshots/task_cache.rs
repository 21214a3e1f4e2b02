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
fn price<'durably>(
    client: &'durably Client,
    order: Order,
) -> ::durably::TaskCall<'durably, anyhow::Result<u64>> {
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
            "price",
            ::durably::__private::module_path!(),
            ::durably::__private::file!(),
            ::durably::__private::line!(),
        )
        .idle_timeout(::durably::__private::Duration::from_millis(10000u64));
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some({
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                let __arguments = __arguments.push::<Order>("order", &order);
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
            let __probe = ::durably::__private::probe::Probe::<
                <anyhow::Result<u64> as ::durably::__private::ResultType>::Error,
            >::new();
            (&&__probe).timeout();
            ::durably::__private::result_codec::<
                <anyhow::Result<u64> as ::durably::__private::ResultType>::Value,
                <anyhow::Result<u64> as ::durably::__private::ResultType>::Error,
                _,
                _,
                _,
            >(
                (&&&__probe).messages(),
                (&&__probe).origin(),
                (&&&__probe)
                    .form::<
                        <anyhow::Result<u64> as ::durably::__private::ResultType>::Error,
                    >(),
            )
        },
        move || {
            let __policy = ::durably::__private::CachePolicy::new()
                .ttl(::durably::__private::Duration::from_millis(3600000u64))
                .version(2)
                .key(::durably::__private::format!("{}", order.id));
            ::durably::__private::Body::once(async move {
                    if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                        anyhow::Result<u64>,
                    > {
                        #[allow(unreachable_code)] return __output;
                    }
                    let client = client;
                    let order = order;
                    #[allow(unused_braces)]
                    let __output: anyhow::Result<u64> = { client.price(order).await };
                    #[allow(unreachable_code)] __output
                })
                .cache(__policy)
        },
    )
}
