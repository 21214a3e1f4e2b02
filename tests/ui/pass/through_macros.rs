//! Functions that a `macro_rules!` writes.
#![deny(warnings)]

use durably::{entrypoint, task};

macro_rules! flow {
    ($name:ident, $inner:ident, $param:ident: $ty:ty, $output:ty, $body:block) => {
        #[task(retry)]
        async fn $inner($param: $ty, by: &$ty) -> anyhow::Result<$output> {
            let _ = by;
            Ok($body)
        }

        #[entrypoint]
        async fn $name($param: $ty) -> $output $body
    };
}

flow!(text, text_task, of: String, String, { of.clone() });
flow!(number, number_task, of: u64, Vec<u64>, { vec![of] });

fn main() {
    let _ = (text(String::new()), number(1));
    let _ = (text_task(String::new(), &String::new()), number_task(1, &2));
}
