//! duroxide over SQLite, its polling set to 1 ms: `duroxide-steps FOLDER full|quick`.
#![forbid(unsafe_code)]

use std::{
    error::Error,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    providers::sqlite::SqliteProvider,
    runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry},
};

const MODE: &str = "duroxide, SQLite";

fn figure(workload: &str, n: usize, metric: &str, value: f64, unit: &str) {
    println!(
        r#"{{"workload":"{workload}","mode":"{MODE}","n":{n},"metric":"{metric}","value":{value},"unit":"{unit}"}}"#
    );
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, size] = arguments.as_slice() else { return Err("duroxide-steps FOLDER full|quick".into()) };
    let (steps, runs) = if size == "quick" { (50, 20) } else { (300, 100) };
    let path = Path::new(folder).join("duroxide.sqlite");
    std::fs::File::create(&path)?;
    let store = Arc::new(SqliteProvider::new(&format!("sqlite:{}", path.display()), None).await?);
    let activities = ActivityRegistry::builder()
        .register("step", |_: ActivityContext, _: String| async move { Ok("0123456789".repeat(10)) })
        .build();
    let chain = |context: OrchestrationContext, n: String| async move {
        let n: u32 = n.parse().map_err(|_| "not a number".to_owned())?;
        let mut bytes = 0;
        for number in 0..n {
            bytes += context.schedule_activity("step", number.to_string()).await?.len();
        }
        Ok(bytes.to_string())
    };
    let orchestrations = OrchestrationRegistry::builder().register("chain", chain).build();
    let options = RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(1),
        orchestration_concurrency: 8,
        worker_concurrency: 8,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(store.clone(), activities, orchestrations, options).await;
    let client = Client::new(store);

    let began = Instant::now();
    client.start_orchestration("a", "chain", steps.to_string()).await?;
    finished(&client, "a").await?;
    let took = began.elapsed().as_secs_f64();
    figure("W1", steps, "a step", took / steps as f64 * 1e6, "us");
    figure("W1", steps, "steps", steps as f64 / took, "1/s");

    let began = Instant::now();
    for number in 0..runs {
        client.start_orchestration(&format!("run-{number}"), "chain", "10").await?;
    }
    for number in 0..runs {
        finished(&client, &format!("run-{number}")).await?;
    }
    figure("W2", runs, "steps", runs as f64 * 10.0 / began.elapsed().as_secs_f64(), "1/s");
    runtime.shutdown(None).await;
    Ok(())
}

async fn finished(client: &Client, instance: &str) -> Result<(), Box<dyn Error>> {
    let status = client.wait_for_orchestration(instance, Duration::from_secs(300)).await;
    match status.map_err(|error| format!("{error:?}"))? {
        OrchestrationStatus::Completed { .. } => Ok(()),
        other => Err(format!("{instance}: {other:?}").into()),
    }
}
