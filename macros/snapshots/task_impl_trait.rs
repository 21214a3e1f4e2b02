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
fn show<'durably>(
    by: impl Display + Serialize + 'durably,
    of: &'durably impl Serialize,
    f: impl Fn(&str) + 'durably,
) -> ::durably::TaskCall<'durably, String> {
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
        "show",
        ::durably::__private::module_path!(),
        ::durably::__private::file!(),
        ::durably::__private::line!(),
    );
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some({
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                let __arguments = __arguments.push("by", &by);
                let __arguments = __arguments.push("of", &of);
                __arguments.finish()
            })
        } else {
            ::durably::__private::None
        },
        ::durably::__private::plain_codec::<String>(),
        move || ::durably::__private::Body::once(async move {
            if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                String,
            > {
                #[allow(unreachable_code)] return __output;
            }
            let by = by;
            let of = of;
            let f = f;
            #[allow(unused_braces)]
            let __output: String = { by };
            #[allow(unreachable_code)] __output
        }),
    )
}
