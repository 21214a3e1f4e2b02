trait Get {
    /// Declared.
    fn get<'durably>(
        &'durably self,
        url: &'durably str,
    ) -> ::durably::TaskCall<'durably, anyhow::Result<String>>
    where
        Self: 'durably;
}
