use durably::{Reconciled, task};

async fn find(_: u64) -> Reconciled<String> {
    Reconciled::Unknown
}

#[task(at_most_once, reconcile = find)]
async fn send(id: u64) -> anyhow::Result<u64> {
    Ok(id)
}

async fn looks(_: u64) -> Option<u64> {
    None
}

#[task(at_most_once, reconcile = looks)]
async fn post(id: u64) -> u64 {
    id
}

fn main() {}
