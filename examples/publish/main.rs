//! A text that is published only as it was approved. Watch for: each `--` line is a process of its own, on the same store;
//! the reviewer's answer goes to exactly what was seen, so that after an edit it is refused; and a process that is killed
//! after the server has accepted leaves the text uncertain until the server was asked. The server, a real one on loopback,
//! publishes each text once.

mod http;

use std::{process::Command, time::Duration};

use anyhow::Context as _;
use durably::{
    Outcome, Runtime,
    approval::{
        self, Answer, Approvals, Authenticated, Decision, Delivery, Matter, Policies, Policy, PolicyRef, Principal,
        Proposal, Reconciled, RevisionId, Role, Worker,
    },
    entrypoint,
};
use http::Server;

#[entrypoint]
async fn publish(story: String, text: String) -> anyhow::Result<String> {
    let proposal = proposal(&story, 1, &text)?;
    let permit = match approval::request(proposal).await {
        Ok(permit) => permit,
        Err(refused) => return Ok(format!("not published: {refused}")),
    };
    let server = durably::resource::<Server>();
    let done = permit.execute(async move |text: std::sync::Arc<String>, key| {
        let sent = server.publish(&text, key.as_str()).await;
        power_may_fail();
        sent
    });
    Ok(done.await?.receipt)
}

/// Pulls the plug after the server has accepted, in the process that is to die.
fn power_may_fail() {
    if std::env::var_os("POWER_CUT").is_some() {
        println!("the server has accepted it; power cut");
        std::process::abort();
    }
}

fn proposal(story: &str, revision: u32, text: &str) -> anyhow::Result<Proposal<String>> {
    let id = RevisionId::new("news", story, revision)?;
    let until = std::time::UNIX_EPOCH + Duration::from_secs(4_102_444_800); // 2100
    let policy = PolicyRef::new("texts", 1);
    let proposal = Proposal::new(id, "publish", "the front page", text.to_owned(), policy, until);
    Ok(proposal.requested_by("ada".try_into()?).delivery(Delivery::Asked))
}

/// Who may do what: here by name; else it is a directory's to say.
fn policies() -> Policies {
    let may = |who: &Principal, role: Role, _: &Matter| match role {
        Role::Requester | Role::Executor | Role::Reconciler => who.account.as_str() == "ada",
        Role::Reviewer | Role::Operator => who.account.as_str() == "bob",
        Role::Clock => false,
    };
    Policies::new().with(Policy::new("texts", 1, may).operation("publish"))
}

/// Whose session this is. A real server looks it up; it is never what a client says of itself.
fn session(cookie: &str) -> anyhow::Result<Authenticated> {
    let account = cookie.strip_prefix("session-of-").context("no such session")?;
    Ok(Authenticated::by(Principal::new("news", account)?, "cookie"))
}

/// One process.
async fn process(step: &str, story: &str, server: Server) -> anyhow::Result<()> {
    let runtime = Runtime::builder().resource(policies()).resource(server.clone()).open(".durably/publish")?;
    let (approvals, thread) = (Approvals::new(&runtime, policies()), runtime.thread(story)?);
    let (id, ada) = (RevisionId::new("news", story, 1)?, Principal::new("news", "ada")?);
    match step {
        "propose" => match thread.invoke(publish(story.to_owned(), format!("All about {story}."))).await? {
            Outcome::Interrupted(open) => print!("{}", open[0].decode::<approval::Asked>()?.view),
            other => println!("{other:?}"),
        },
        "edit" => {
            let edited = approvals.propose(&ada, proposal(story, 2, "All lies.")?).await?;
            println!("revision {} is {}", edited.id.revision, edited.state);
        }
        "approve" | "open" => {
            let bob = session("session-of-bob")?;
            let seen = approvals.review(&bob, &id).await?;
            if step == "open" {
                // The reviewer reads, and answers from another process.
                std::fs::write("seen", format!("{}\n{}", seen.digest, seen.token.context("pending")?.reveal()))?;
                return Ok(());
            }
            let answer = Answer::to(&seen, Decision::Approve);
            println!("{}", approvals.answer(&bob, answer, seen.token.context("pending")?).await?);
        }
        "answer" => {
            let seen = std::fs::read_to_string("seen")?;
            let (digest, token) = seen.split_once('\n').context("two lines")?;
            let form = format!(r#"{{"action":"{story}","revision":1,"digest":"{digest}","decision":"approve"}}"#);
            match approvals.answer_text(&session("session-of-bob")?, &form, token).await {
                Ok(state) => println!("{state}"),
                Err(error) => println!("refused: {error}"),
            }
        }
        "reconcile" => {
            approvals.run_due().await?;
            for listed in approvals.uncertain(&ada).await? {
                println!("{} is {}: {}", listed.id, listed.state, listed.note);
                match approvals.reconcile::<String, _>(&Worker::new(ada.clone()), &listed.id, &server).await? {
                    Reconciled::Settled(state) => println!("the server says: {state}"),
                    Reconciled::Again(_) => println!("to be sent again"),
                }
            }
        }
        _ => match thread.resume(publish).await? {
            Outcome::Completed(receipt) => println!("{receipt}"),
            other => other.questions().iter().for_each(|open| println!("waiting: {}", open.key())),
        },
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if let [_, step, story, address] = &std::env::args().collect::<Vec<_>>()[..] {
        return process(step, story, Server::at(address)).await;
    }
    let server = Server::start()?;
    let run = |step: &str, story: &str, power_cut: bool| -> anyhow::Result<()> {
        println!("-- {step} {story}");
        let mut process = Command::new(std::env::current_exe()?);
        process.args([step, story, server.address()]);
        if power_cut {
            process.env("POWER_CUT", "1");
        }
        anyhow::ensure!(process.status()?.success() != power_cut, "{step} {story} did not end as it should");
        Ok(())
    };
    for step in ["propose", "approve", "resume"] {
        run(step, "whales", false)?;
    }
    for step in ["propose", "open", "edit", "answer", "resume"] {
        run(step, "sharks", false)?;
    }
    run("propose", "eels", false)?;
    run("approve", "eels", false)?;
    run("resume", "eels", true)?;
    for step in ["resume", "reconcile", "resume"] {
        run(step, "eels", false)?;
    }
    server.published().iter().for_each(|text| println!("published: {text}"));
    Ok(())
}
