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
pub(crate) fn get<'durably, 'durably0, 'durably1, 'a, T: Serialize>(
    &'durably self,
    of: &'a T,
    context: Context<'durably0>,
    list: &'durably mut Vec<&'durably1 str>,
) -> ::durably::TaskCall<'durably, u8>
where
    T: Sync,
    'a: 'durably,
    T: 'durably,
    'durably0: 'durably,
    'durably1: 'durably,
    Self: 'durably,
{
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
        "get",
        ::durably::__private::module_path!(),
        ::durably::__private::file!(),
        ::durably::__private::line!(),
    );
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some({
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                let __arguments = __arguments.push::<&'a T>("of", &of);
                let __arguments = __arguments
                    .push::<Context<'durably0>>("context", &context);
                let __arguments = __arguments
                    .push::<&'durably mut Vec<&'durably1 str>>("list", &list);
                __arguments.finish()
            })
        } else {
            ::durably::__private::None
        },
        ::durably::__private::plain_codec::<u8>(),
        move || ::durably::__private::Body::once(async move {
            if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                u8,
            > {
                #[allow(unreachable_code)] return __output;
            }
            let of = of;
            let context = context;
            let list = list;
            #[allow(unused_braces)]
            let __output: u8 = { self.count(of, context, list) };
            #[allow(unreachable_code)] __output
        }),
    )
}
