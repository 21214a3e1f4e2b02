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
fn transfer<'durably>(
    &'durably self,
    order: &'durably Order,
    cents: u64,
) -> ::durably::TaskCall<'durably, anyhow::Result<Receipt>>
where
    Self: 'durably,
{
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
            "transfer",
            ::durably::__private::module_path!(),
            ::durably::__private::file!(),
            ::durably::__private::line!(),
        )
        .timeout(::durably::__private::Duration::from_millis(10000u64));
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some({
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                let __arguments = __arguments.push::<&'durably Order>("order", &order);
                let __arguments = __arguments.push::<u64>("cents", &cents);
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
                <anyhow::Result<Receipt> as ::durably::__private::ResultType>::Error,
            >::new();
            (&&__probe).timeout();
            ::durably::__private::result_codec::<
                <anyhow::Result<Receipt> as ::durably::__private::ResultType>::Value,
                <anyhow::Result<Receipt> as ::durably::__private::ResultType>::Error,
                _,
                _,
                _,
            >(
                (&&&__probe).messages(),
                (&&__probe).origin(),
                (&&&__probe)
                    .form::<
                        <anyhow::Result<
                            Receipt,
                        > as ::durably::__private::ResultType>::Error,
                    >(),
            )
        },
        move || {
            let __reconcile = {
                let order = ::durably::__private::again::<&'durably Order>(&order);
                let cents = ::durably::__private::again::<u64>(&cents);
                move || {
                    let order = ::durably::__private::again::<&'durably Order>(&order);
                    let cents = ::durably::__private::again::<u64>(&cents);
                    ::durably::__private::reconciling::<
                        <anyhow::Result<
                            Receipt,
                        > as ::durably::__private::ResultType>::Value,
                        _,
                    >(bank::find(self, order, cents))
                }
            };
            ::durably::__private::Body::again(move || {
                    let order = ::durably::__private::again::<&'durably Order>(&order);
                    let cents = ::durably::__private::again::<u64>(&cents);
                    async move {
                        if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                            anyhow::Result<Receipt>,
                        > {
                            #[allow(unreachable_code)] return __output;
                        }
                        let order = order;
                        let cents = cents;
                        #[allow(unused_braces)]
                        let __output: anyhow::Result<Receipt> = {
                            self.bank.transfer(order, cents).await
                        };
                        #[allow(unreachable_code)] __output
                    }
                })
                .retry(
                    ::durably::__private::RetryPolicy::new().max_attempts(2),
                    ::durably::__private::None,
                )
                .at_most_once::<
                    <anyhow::Result<Receipt> as ::durably::__private::ResultType>::Value,
                >()
                .reconcile(__reconcile)
        },
    )
}
