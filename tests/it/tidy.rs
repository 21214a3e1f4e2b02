//! The tree keeps its shape: layers, and files with one job.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The longest a source file may be before it is asked whether it still has one job.
const LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The layer of each module, as `lib.rs` lists them: a blank line begins the next.
fn layers() -> BTreeMap<String, usize> {
    let lib = fs::read_to_string(root().join("runtime/src/lib.rs")).unwrap();
    let modules = lib.split("#![forbid(unsafe_code)]").nth(1).unwrap();
    let modules = modules.split("#[doc(hidden)]").next().unwrap();
    let mut layers = BTreeMap::new();
    for (layer, group) in modules.trim().split("\n\n").enumerate() {
        for line in group.lines() {
            let line = line.trim_start_matches("pub ");
            if let Some(name) = line.strip_prefix("mod ") {
                layers.insert(name.trim_end_matches(';').to_owned(), layer);
            }
        }
    }
    layers
}

/// The layer that each name at the crate's root comes from.
fn names(layers: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let lib = fs::read_to_string(root().join("runtime/src/lib.rs")).unwrap();
    let mut names = layers.clone();
    for export in lib.split("pub use ").skip(1) {
        let export = export.split(';').next().unwrap();
        let Some((module, exported)) = export.split_once("::") else { continue };
        let Some(layer) = layers.get(module) else { continue };
        for name in exported.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty()) {
            names.insert(name.to_owned(), *layer);
        }
    }
    names
}

/// What a source file names of its crate in `use` lines and paths, outside of comments and of its tests.
fn used(text: &str) -> Vec<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut used = Vec::new();
    for rest in code.split("crate::").skip(1) {
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            for c in list.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    c if depth == 0 && (c.is_alphanumeric() || c == '_') => word.push(c),
                    ':' | ',' if depth == 0 && !word.is_empty() => used.push(std::mem::take(&mut word)),
                    _ => {}
                }
            }
            used.extend((!word.is_empty()).then_some(word));
        } else {
            used.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    used
}

#[test]
fn a_module_uses_only_its_own_layer_and_those_before_it() {
    let layers = layers();
    assert!(layers.len() > 15, "lib.rs lists its modules in groups: {layers:?}");
    let names = names(&layers);
    let mut files = Vec::new();
    sources(&root().join("runtime/src"), &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let place = file.strip_prefix(root().join("runtime/src")).unwrap().to_owned();
        let module =
            place.components().next().unwrap().as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned();
        let Some(own) = layers.get(&module) else { continue };
        if place.components().any(|part| part.as_os_str().to_string_lossy().trim_end_matches(".rs") == "tests") {
            continue;
        }
        for name in used(&fs::read_to_string(&file).unwrap()) {
            // The macros' attributes are everybody's.
            if names.get(&name).is_some_and(|layer| layer > own) && name != "task" && name != "entrypoint" {
                wrong.push(format!("{} uses {name}, which comes later", place.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_source_file_is_short_enough_to_have_one_job() {
    let mut files = Vec::new();
    for folder in ["macros/src", "runtime/src", "tests", "examples"] {
        sources(&root().join(folder), &mut files);
    }
    let long: Vec<String> = files
        .into_iter()
        .filter(|file| !file.components().any(|part| part.as_os_str() == "target"))
        .filter_map(|file| {
            let lines = fs::read_to_string(&file).unwrap().lines().count();
            (lines > LINES).then(|| format!("{} has {lines} lines", file.display()))
        })
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn every_crate_forbids_unsafe_code_and_every_file_says_what_it_is_for() {
    let root = root();
    for lib in ["macros/src/lib.rs", "runtime/src/lib.rs"] {
        assert!(fs::read_to_string(root.join(lib)).unwrap().contains("#![forbid(unsafe_code)]"), "{lib}");
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"forbid\""), "the workspace's lints forbid it too");
    let mut files = Vec::new();
    for folder in ["macros/src", "runtime/src", "tests/it", "examples"] {
        sources(&root.join(folder), &mut files);
    }
    let silent: Vec<PathBuf> =
        files.into_iter().filter(|file| !fs::read_to_string(file).unwrap().starts_with("//!")).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}
