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
fn nothing<'durably>() -> ::durably::TaskCall<'durably, ()> {
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
        "nothing",
        ::durably::__private::module_path!(),
        ::durably::__private::file!(),
        ::durably::__private::line!(),
    );
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some({
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                __arguments.finish()
            })
        } else {
            ::durably::__private::None
        },
        ::durably::__private::plain_codec::<()>(),
        move || ::durably::__private::Body::once(async move {
            if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                (),
            > {
                #[allow(unreachable_code)] return __output;
            }
            #[allow(unused_braces)]
            let __output: () = {};
            #[allow(unreachable_code)] __output
        }),
    )
}
::core::compile_error! {
    "a task has no option `tiemout`, did you mean `timeout`?; there are `name`, `retry`, `timeout`, `idle_timeout`, `cache`, `skip`, `skip_all`, `key`, `blocking`, `at_most_once`, `reconcile`"
}
