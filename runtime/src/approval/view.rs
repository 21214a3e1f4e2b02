//! What a reviewer is shown: all that is in the digest, field by field, with secrets as hashes and deceit escaped.

use std::{fmt, time::SystemTime};

use sha2::{Digest as _, Sha256};

use super::{
    ContentRef, Delivery, Digest, PolicyRef, RevisionId,
    canonical::{Json, Node},
    proposal::Document,
    text::{self, Deceit},
};
use crate::{environment::moment, hex::hex};

/// One field of a proposal, as a reviewer is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ViewField {
    /// Where it stands: a name, or a JSON pointer into the arguments such as `args/lines/0/cents`; escaped.
    pub path: String,
    /// Its value, escaped; for a secret, a hash that is the same for the same value in this revision.
    pub text: String,
    /// Whether it is a secret.
    pub is_secret: bool,
    /// What in its name or value may deceive the eye.
    pub deceits: Vec<Deceit>,
}

/// A revision as a reviewer is shown it; `Display` gives it as lines of text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReviewView {
    /// The revision.
    pub id: RevisionId,
    /// Its digest, which the answer names.
    pub digest: Digest,
    /// A title, which is not part of what is approved; escaped.
    pub title: String,
    /// All that is approved.
    pub fields: Vec<ViewField>,
    /// Content by reference.
    pub content: Vec<ContentRef>,
    /// Until when it may be approved and executed.
    pub expires_at: SystemTime,
    /// The policy.
    pub policy: PolicyRef,
    /// What a reviewer has to know beside the fields.
    pub warnings: Vec<String>,
}

impl ReviewView {
    pub(super) fn of(id: &RevisionId, digest: Digest, title: &str, document: &Document, salt: &[u8; 16]) -> Self {
        let mut page = Page { secret: &document.secret, salt, fields: Vec::new() };
        page.plain("tenant", &document.tenant);
        page.plain("action", &document.action);
        page.number("revision", document.revision);
        page.plain("operation", &document.op);
        page.number("schema", document.schema);
        page.plain("target", &document.target);
        for (name, value) in &document.options {
            page.plain(&format!("option {name}"), value);
        }
        page.node("", &document.args.0);
        for content in &document.content {
            page.number(&format!("content sha256 {}", content.sha256()), format_args!("{} bytes", content.length()));
            page.plain("content's type", content.media_type());
        }
        page.number("delivery", document.delivery.word());
        page.number("expires", text::utc(document.expires_at_ms));
        page.plain("policy", &document.policy.id);
        page.number("policy's version", document.policy.version);
        let fields = page.fields;
        let mut warnings: Vec<String> = fields
            .iter()
            .flat_map(|field| field.deceits.iter().map(move |deceit| format!("{}: {deceit}", field.path)))
            .collect();
        if document.delivery == Delivery::Blind {
            warnings.push(
                "the receiver knows no key and answers no question: that this happens exactly once cannot be promised"
                    .to_owned(),
            );
        }
        Self {
            id: id.clone(),
            digest,
            title: text::shown(title),
            fields,
            content: document.content.clone(),
            expires_at: moment(document.expires_at_ms),
            policy: document.policy.clone(),
            warnings,
        }
    }
}

struct Page<'d> {
    secret: &'d [String],
    salt: &'d [u8; 16],
    fields: Vec<ViewField>,
}

impl Page<'_> {
    fn plain(&mut self, path: &str, value: &str) {
        let mut deceits = text::deceits(path);
        deceits.extend(text::deceits(value));
        self.add(path, text::shown(value), false, deceits);
    }

    fn number(&mut self, path: &str, value: impl fmt::Display) {
        self.add(path, value.to_string(), false, text::deceits(path));
    }

    fn add(&mut self, path: &str, text: String, is_secret: bool, mut deceits: Vec<Deceit>) {
        deceits.sort_unstable();
        deceits.dedup();
        let path = text::shown(path);
        let path = path.trim_matches('"').to_owned();
        self.fields.push(ViewField { path, text, is_secret, deceits });
    }

    fn node(&mut self, pointer: &str, node: &Node) {
        let path = format!("args{pointer}");
        if self.secret.iter().any(|secret| secret == pointer) {
            return self.add(&path, hidden(self.salt, pointer, node), true, text::deceits(&path));
        }
        match node {
            Node::Null => self.number(&path, "null"),
            Node::Bool(value) => self.number(&path, value),
            Node::Integer(value) => self.number(&path, value),
            Node::Text(value) => self.plain(&path, value),
            Node::List(items) if items.is_empty() => self.number(&path, "[]"),
            Node::Map(entries) if entries.is_empty() => self.number(&path, "{}"),
            Node::List(items) => {
                for (place, item) in items.iter().enumerate() {
                    self.node(&format!("{pointer}/{place}"), item);
                }
            }
            Node::Map(entries) => {
                for (key, value) in entries {
                    self.node(&format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), value);
                }
            }
        }
    }
}

/// What stands for a secret. The salt is the revision's and never shown, so that no secret can be guessed from this.
fn hidden(salt: &[u8; 16], pointer: &str, node: &Node) -> String {
    let hash = Sha256::new()
        .chain_update(b"durably.secret.v1\0")
        .chain_update(salt)
        .chain_update(pointer)
        .chain_update([0])
        .chain_update(Json(node.clone()).canonical())
        .finalize();
    format!("secret {}", hex(&hash[..8]))
}

/// The part of a document at a JSON pointer.
fn at<'n>(node: &'n Node, pointer: &str) -> Option<&'n Node> {
    let mut node = node;
    if pointer.is_empty() {
        return Some(node);
    }
    for step in pointer.strip_prefix('/')?.split('/') {
        let step = step.replace("~1", "/").replace("~0", "~");
        node = match node {
            Node::Map(entries) => &entries.iter().find(|(key, _)| *key == step)?.1,
            Node::List(items) => items.get(step.parse::<usize>().ok().filter(|place| place.to_string() == step)?)?,
            Node::Null | Node::Bool(_) | Node::Integer(_) | Node::Text(_) => return None,
        };
    }
    Some(node)
}

impl Document {
    /// A secret's pointer that leads nowhere: the secret itself would then be shown.
    pub(super) fn misses_secret(&self) -> Option<&str> {
        self.secret.iter().find(|pointer| at(&self.args.0, pointer).is_none()).map(String::as_str)
    }

    /// The texts that are secret, to be struck out of messages.
    pub(super) fn secrets(&self) -> Vec<String> {
        fn texts(node: &Node, found: &mut Vec<String>) {
            match node {
                Node::Null | Node::Bool(_) => {}
                Node::Integer(number) => found.push(number.to_string()),
                Node::Text(text) => found.push(text.clone()),
                Node::List(items) => items.iter().for_each(|item| texts(item, found)),
                Node::Map(entries) => entries.iter().for_each(|(_, value)| texts(value, found)),
            }
        }
        let mut found = Vec::new();
        self.secret.iter().filter_map(|pointer| at(&self.args.0, pointer)).for_each(|node| texts(node, &mut found));
        // Shorter ones would strike out half of every message, and are no secrets.
        found.retain(|text| text.len() >= 3);
        found.sort_by_key(|text| std::cmp::Reverse(text.len()));
        found
    }
}

/// Strikes secrets out of a message, and cuts it to a length that an audit entry may have.
pub(super) fn scrubbed(message: &str, secrets: &[String]) -> String {
    const LONGEST: usize = 1000;
    let mut message = message.to_owned();
    for secret in secrets {
        message = message.replace(secret.as_str(), "[secret]");
    }
    if message.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(cut);
        message.push('…');
    }
    message
}

impl fmt::Display for ReviewView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "digest {}", self.digest)?;
        for field in &self.fields {
            writeln!(f, "  {} = {}", field.path, field.text)?;
        }
        for warning in &self.warnings {
            writeln!(f, "  ! {warning}")?;
        }
        Ok(())
    }
}
