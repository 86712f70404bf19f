//! The crate documentation lists which module may name which; here that is read and checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that every other may name.
const COMMON: [&str; 2] = ["error", "config"];

fn table(crate_doc: &str) -> BTreeMap<String, BTreeSet<String>> {
    let rows = crate_doc.lines().filter_map(|line| line.strip_prefix("//! | "));
    let mut table = BTreeMap::new();
    for row in rows.skip(1) {
        let cells: Vec<_> = row.trim_end_matches(" |").split(" | ").collect();
        let [module, _, names] = cells[..] else { panic!("a row of three cells: {row}") };
        let module = module.trim_matches(['[', ']', '`']).to_owned();
        let names = names.split(", ").filter(|name| *name != "-");
        table.insert(module, names.map(str::to_owned).chain(COMMON.map(str::to_owned)).collect());
    }
    table
}

fn sources(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Modules of this crate that the code of `text` names; comments do not count.
fn named(text: &str) -> BTreeSet<String> {
    let code = text.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
    let mut modules = BTreeSet::new();
    for line in code {
        for part in line.split("crate::").skip(1) {
            let names = part.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            if names.chars().next().is_some_and(char::is_lowercase) {
                modules.insert(names.to_owned());
            }
        }
    }
    modules
}

#[test]
fn layers_name_only_what_the_table_lists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let table = table(&fs::read_to_string(root.join("lib.rs")).unwrap());
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut faults = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).unwrap();
        let module = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if module == "lib" || module == "bin" {
            continue;
        }
        let allowed = table.get(module).unwrap_or_else(|| panic!("{module} is not in the table"));
        for name in named(&fs::read_to_string(&file).unwrap()) {
            if name != module && table.contains_key(&name) && !allowed.contains(&name) {
                faults.push(format!("{} names {name}", inside.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
