//! The modules of a crate as they are declared, without what is compiled for tests only.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

/// A crate, read from its entry file.
pub(crate) struct Crate {
    /// Paths below the root that `read` was given.
    files: Vec<String>,
    pub(crate) modules: Vec<Module>,
}

/// A module: a file, or a part of one.
pub(crate) struct Module {
    /// Index of its file.
    pub(crate) file: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) children: HashMap<String, usize>,
    /// Names of what is defined in it.
    pub(crate) defined: Vec<String>,
    /// What `use` brings in.
    pub(crate) imports: Vec<Import>,
    /// Its items, without those for tests.
    pub(crate) items: Vec<Item>,
}

/// One leaf of a `use`.
pub(crate) struct Import {
    /// The name in this module; `None` for `*`.
    pub(crate) name: Option<String>,
    pub(crate) path: Vec<String>,
    /// `pub use` of any kind, which only passes a name on.
    pub(crate) is_public: bool,
}

impl Crate {
    /// Reads `entry`, a path below `root`, and all files that it declares.
    pub(crate) fn read(root: &Path, entry: &Path) -> Self {
        let mut found = Self { files: Vec::new(), modules: Vec::new() };
        let directory = entry.parent().unwrap().to_owned();
        found.read_file(root, entry.to_owned(), directory, None);
        found
    }

    pub(crate) fn file(&self, file: usize) -> &str {
        &self.files[file]
    }

    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }

    /// Reads one file as a module whose children are in `directory`.
    fn read_file(
        &mut self,
        root: &Path,
        path: PathBuf,
        directory: PathBuf,
        parent: Option<usize>,
    ) -> usize {
        let text = std::fs::read_to_string(root.join(&path))
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        self.files.push(path.to_str().unwrap().to_owned());
        self.add(root, self.files.len() - 1, &directory, parent, parsed.items)
    }

    fn add(
        &mut self,
        root: &Path,
        file: usize,
        directory: &Path,
        parent: Option<usize>,
        items: Vec<Item>,
    ) -> usize {
        let id = self.modules.len();
        let items: Vec<Item> =
            items.into_iter().filter(|item| !for_tests(attributes(item))).collect();
        self.modules.push(Module {
            file,
            parent,
            children: HashMap::new(),
            defined: Vec::new(),
            imports: Vec::new(),
            items: Vec::new(),
        });
        let mut kept = Vec::new();
        for item in items {
            match item {
                Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let below = directory.join(&name);
                    let child = match module.content {
                        Some((_, items)) => self.add(root, file, &below, Some(id), items),
                        None => {
                            let beside = directory.join(format!("{name}.rs"));
                            let path = if root.join(&beside).exists() {
                                beside
                            } else {
                                below.join("mod.rs")
                            };
                            self.read_file(root, path, below, Some(id))
                        }
                    };
                    self.modules[id].children.insert(name, child);
                }
                Item::Use(item) => {
                    let imports = leaves(&item);
                    self.modules[id].imports.extend(imports);
                }
                other => {
                    self.modules[id].defined.extend(name_of(&other));
                    kept.push(other);
                }
            }
        }
        self.modules[id].items = kept;
        id
    }
}

/// The leaves of a `use`.
pub(crate) fn leaves(item: &ItemUse) -> Vec<Import> {
    fn walk(tree: &UseTree, prefix: &[String], is_public: bool, found: &mut Vec<Import>) {
        let with = |name: String| prefix.iter().cloned().chain([name]).collect::<Vec<_>>();
        let mut leaf = |name: Option<String>, path| found.push(Import { name, path, is_public });
        match tree {
            UseTree::Path(path) => {
                walk(&path.tree, &with(path.ident.to_string()), is_public, found)
            }
            UseTree::Name(name) if name.ident == "self" => {
                leaf(prefix.last().cloned(), prefix.to_vec())
            }
            UseTree::Name(name) => leaf(Some(name.ident.to_string()), with(name.ident.to_string())),
            UseTree::Rename(name) => {
                leaf(Some(name.rename.to_string()), with(name.ident.to_string()))
            }
            UseTree::Glob(_) => leaf(None, prefix.to_vec()),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| walk(tree, prefix, is_public, found))
            }
        }
    }
    let mut found = Vec::new();
    walk(&item.tree, &[], !matches!(item.vis, Visibility::Inherited), &mut found);
    found
}

/// Whether something is compiled for tests only: `#[test]`, or a `cfg` that asks for `test`.
pub(crate) fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let text = list.tokens.to_string();
                    let words: Vec<&str> =
                        text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
                    words.contains(&"test") && !words.contains(&"not")
                })
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}
