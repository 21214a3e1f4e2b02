//! What is to be known of a text, and the report on many. Pure, and the same on every run: all order is by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::Path,
};

use serde::{Deserialize, Serialize};

/// Words that tell nothing.
const COMMON: &[&str] = &[
    "also", "been", "before", "each", "every", "from", "have", "here", "into", "more", "most", "must", "nothing",
    "once", "only", "other", "over", "same", "says", "some", "such", "than", "that", "their", "them", "then", "there",
    "these", "they", "this", "what", "when", "where", "whether", "which", "while", "whose", "will", "with", "without",
    "would",
];

/// What is known of one file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Page {
    lines: usize,
    words: usize,
    bytes: usize,
    /// The sentences that say most about it, in their order.
    telling: Vec<String>,
    /// How often each word of its prose occurs.
    vocabulary: BTreeMap<String, usize>,
}

/// Whether a file's name is that of a text.
pub(crate) fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|kind| ["rs", "md", "toml", "txt"].iter().any(|text| kind == *text))
}

impl Page {
    pub(crate) fn of(path: &str, text: &str) -> Self {
        let sentences = sentences(&prose(path, text));
        let mut vocabulary = BTreeMap::new();
        for word in sentences.iter().flat_map(|sentence| words(sentence)) {
            *vocabulary.entry(word).or_default() += 1;
        }
        Self {
            lines: text.lines().count(),
            words: text.split_whitespace().count(),
            bytes: text.len(),
            telling: telling(&sentences, &vocabulary),
            vocabulary,
        }
    }
}

/// The prose of a text: of code its comments, of anything else what is not fenced off.
fn prose(path: &str, text: &str) -> String {
    let mark = match path.rsplit_once('.') {
        Some((_, "rs")) => Some("//"),
        Some((_, "toml")) => Some("#"),
        _ => None,
    };
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines().map(str::trim) {
        let line = match mark.map(|mark| line.strip_prefix(mark)) {
            None => line,
            Some(Some(comment)) => comment.trim_start_matches(['/', '!', '#']).trim(),
            Some(None) => "",
        };
        is_fenced ^= line.starts_with("```");
        let is_prose = !is_fenced && !line.starts_with(['|', '#', '`']);
        prose.push_str(if is_prose { line } else { "" });
        // An empty line ends a sentence.
        prose.push_str(if is_prose && !line.is_empty() { " " } else { "\n" });
    }
    prose
}

fn sentences(prose: &str) -> Vec<String> {
    let ends = |paragraph: &str| paragraph.replace(". ", ".\n").replace("? ", "?\n").replace("! ", "!\n");
    let all: Vec<String> = prose.lines().map(ends).collect();
    all.iter().flat_map(|paragraph| paragraph.lines()).map(|sentence| sentence.trim().to_owned()).collect()
}

fn words(sentence: &str) -> impl Iterator<Item = String> + '_ {
    let all = sentence.split(|letter: char| !letter.is_alphabetic()).filter(|word| word.chars().count() > 3);
    all.map(str::to_lowercase).filter(|word| !COMMON.contains(&word.as_str()))
}

/// The two sentences with the words that are frequent in the file and rare in its sentences.
fn telling(sentences: &[String], vocabulary: &BTreeMap<String, usize>) -> Vec<String> {
    let sets: Vec<BTreeSet<String>> = sentences.iter().map(|sentence| words(sentence).collect()).collect();
    let mut holding: BTreeMap<&str, usize> = BTreeMap::new();
    for word in sets.iter().flatten() {
        *holding.entry(word).or_default() += 1;
    }
    #[expect(clippy::cast_precision_loss)] // no file has 2^52 words
    let weight = |word: &String| vocabulary[word] as f64 * (sets.len() as f64 / holding[word.as_str()] as f64).ln_1p();
    let score =
        |set: &BTreeSet<String>| set.iter().map(weight).sum::<f64>() / f64::from(u32::try_from(set.len()).unwrap_or(1));
    let mut ranked: Vec<(usize, f64)> = sets.iter().map(score).enumerate().collect();
    ranked.retain(|(place, _)| {
        (5..=40).contains(&sentences[*place].split_whitespace().count()) && !sets[*place].is_empty()
    });
    // The sort is stable: of equals the first counts.
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let mut best: Vec<usize> = ranked.into_iter().take(2).map(|(place, _)| place).collect();
    best.sort_unstable();
    best.into_iter().map(|place| sentences[place].clone()).collect()
}

/// The report on all files, in the order in which they come.
pub(crate) fn report<'a>(folder: &str, files: impl Iterator<Item = (&'a String, &'a Result<Page, String>)>) -> String {
    let (mut all, mut unread) = (String::new(), String::new());
    let mut total = Page { lines: 0, words: 0, bytes: 0, telling: Vec::new(), vocabulary: BTreeMap::new() };
    let mut read = 0;
    for (path, page) in files {
        match page {
            Ok(page) => {
                read += 1;
                (total.lines, total.words, total.bytes) =
                    (total.lines + page.lines, total.words + page.words, total.bytes + page.bytes);
                for (word, count) in &page.vocabulary {
                    *total.vocabulary.entry(word.clone()).or_default() += count;
                }
                let _ =
                    writeln!(all, "\n### {path}\n\n{} lines, {} words, {} bytes", page.lines, page.words, page.bytes);
                for sentence in &page.telling {
                    let _ = write!(all, "\n> {sentence}\n");
                }
            }
            Err(reason) => _ = writeln!(unread, "- {path}: {reason}"),
        }
    }
    let mut frequent: Vec<(String, usize)> = total.vocabulary.into_iter().collect();
    frequent.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let frequent: Vec<String> = frequent.iter().take(20).map(|(word, count)| format!("{word} ({count})")).collect();
    let unread = if unread.is_empty() { unread } else { format!("\n## Not read\n\n{unread}") };
    let Page { lines, words, bytes, .. } = total;
    format!(
        "# {folder}\n\n{read} files, {lines} lines, {words} words, {bytes} bytes\n\nMost frequent words: {}\n{unread}\n## Files\n{all}",
        frequent.join(", ")
    )
}
