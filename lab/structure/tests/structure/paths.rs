//! The paths in a module's code, and the file in which each name is defined.

use std::collections::{BTreeMap, HashSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Pat, PatIdent, Visibility};

use crate::modules::{Crate, Import, for_tests, leaves};

/// From one file to another, with a path that makes it so.
pub(crate) type Dependencies = BTreeMap<(usize, usize), String>;

/// Which file uses what another one defines. A name that is passed on by `pub use` counts for the file that defines it, and
/// passing it on is no use.
pub(crate) fn dependencies(of: &Crate) -> Dependencies {
    let mut found = Dependencies::new();
    for (id, module) in of.modules.iter().enumerate() {
        let imports = module
            .imports
            .iter()
            .filter(|i| !i.is_public && i.name.is_some())
            .map(|i| i.path.clone());
        for path in imports.chain(paths(of, id)) {
            if let Some(Found::Item(file)) = resolve(of, id, &path, 0)
                && file != module.file
            {
                found.entry((module.file, file)).or_insert_with(|| path.join("::"));
            }
        }
    }
    found
}

/// How many paths of each file go through a module of this name, other than those of the health and reflection
/// services.
pub(crate) fn through(of: &Crate, name: &str) -> BTreeMap<String, usize> {
    let mut found: BTreeMap<String, usize> =
        of.files().iter().map(|file| (file.clone(), 0)).collect();
    for (id, module) in of.modules.iter().enumerate() {
        let is_through = |path: &Vec<String>| {
            let own =
                path.len() > 1 && !["tonic_health", "tonic_reflection"].contains(&path[0].as_str());
            own && path.iter().any(|segment| segment == name)
        };
        let imports = module.imports.iter().map(|import| import.path.clone());
        let count = imports.chain(paths(of, id)).filter(is_through).count();
        *found.get_mut(of.file(module.file)).unwrap() += count;
    }
    found
}

#[derive(Clone, Copy)]
enum Found {
    Module(usize),
    /// The file that defines it.
    Item(usize),
}

/// Where a path leads; `None` for what other crates define, and for local names.
fn resolve(of: &Crate, from: usize, path: &[String], depth: usize) -> Option<Found> {
    if depth > 16 {
        return None;
    }
    let mut at = None;
    for (i, segment) in path.iter().enumerate() {
        let is_last = i + 1 == path.len();
        at = Some(match (segment.as_str(), at) {
            ("crate", None) => Found::Module(0),
            ("self", None) => Found::Module(from),
            ("super", None) => Found::Module(of.modules[from].parent?),
            ("super", Some(Found::Module(module))) => Found::Module(of.modules[module].parent?),
            (name, None) => lookup(of, from, name, is_last, depth)?,
            (name, Some(Found::Module(module))) => lookup(of, module, name, is_last, depth)?,
            // An associated item or a variant.
            (_, Some(Found::Item(file))) => return Some(Found::Item(file)),
        });
    }
    at
}

/// A name in a module. The last segment of a path is rather an item than a module of the same name.
fn lookup(of: &Crate, module: usize, name: &str, is_last: bool, depth: usize) -> Option<Found> {
    let here = &of.modules[module];
    let child = here.children.get(name).map(|&child| Found::Module(child));
    let item = || {
        if here.defined.iter().any(|defined| defined == name) {
            return Some(Found::Item(here.file));
        }
        let named = here.imports.iter().filter(|import| import.name.as_deref() == Some(name));
        let named = named.filter_map(|import| resolve(of, module, &import.path, depth + 1)).next();
        named.or_else(|| {
            let globs = here.imports.iter().filter(|import| import.name.is_none());
            globs
                .filter_map(|Import { path, .. }| match resolve(of, module, path, depth + 1)? {
                    Found::Module(other) if other != module => {
                        lookup(of, other, name, is_last, depth + 1)
                    }
                    _ => None,
                })
                .next()
        })
    };
    if is_last { item().or(child) } else { child.or_else(item) }
}

/// Every path in the code of a module, as written.
fn paths(of: &Crate, module: usize) -> Vec<Vec<String>> {
    let mut reader = Reader::default();
    for item in &of.modules[module].items {
        reader.visit_item(item);
    }
    reader.found
}

#[derive(Default)]
struct Reader {
    found: Vec<Vec<String>>,
    /// Names that the function being read binds: they hide items.
    bound: HashSet<String>,
}

impl Reader {
    fn with_bindings(&mut self, of: &dyn Fn(&mut Bindings), read: impl FnOnce(&mut Self)) {
        let mut bindings = Bindings(self.bound.clone());
        of(&mut bindings);
        let outer = std::mem::replace(&mut self.bound, bindings.0);
        read(self);
        self.bound = outer;
    }

    /// Paths in the tokens of a macro's call: `a::b`, and names that are called, built or begin with a capital.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |i: usize, c: char| matches!(tokens.get(i), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let mut i = 0;
        while i < tokens.len() {
            match &tokens[i] {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let after_dot = i > 0 && is(i - 1, '.') && !(i > 1 && is(i - 2, '.'));
                    let mut path = vec![first.to_string()];
                    while is(i + 1, ':') && is(i + 2, ':') {
                        let Some(TokenTree::Ident(next)) = tokens.get(i + 3) else { break };
                        path.push(next.to_string());
                        i += 3;
                    }
                    let is_called =
                        matches!(tokens.get(i + 1), Some(TokenTree::Group(_))) || is(i + 1, '!');
                    let is_capital = path[0].starts_with(char::is_uppercase);
                    let is_hidden = path.len() == 1
                        && (self.bound.contains(&path[0]) || !(is_called || is_capital));
                    if !after_dot && !is_hidden {
                        self.found.push(path);
                    }
                }
                _ => {}
            }
            i += 1;
        }
    }
}

impl Visit<'_> for Reader {
    /// Paths in the arguments of derive helpers, such as `#[error("…", super::LIMIT)]`.
    fn visit_attribute(&mut self, attribute: &Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            let before = self.found.len();
            self.tokens(list.tokens.clone());
            let added = self.found.split_off(before);
            let is_ours =
                |path: &Vec<String>| matches!(path[0].as_str(), "crate" | "self" | "super");
            self.found.extend(added.into_iter().filter(is_ours));
        }
    }

    fn visit_visibility(&mut self, _: &Visibility) {}

    fn visit_path(&mut self, path: &syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none()
            && !(segments.len() == 1 && self.bound.contains(&segments[0]))
        {
            self.found.push(segments);
        }
        visit::visit_path(self, path);
    }

    /// A `use` within a function.
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.found.extend(leaves(item).into_iter().map(|import| import.path));
    }

    fn visit_macro(&mut self, called: &syn::Macro) {
        self.visit_path(&called.path);
        self.tokens(called.tokens.clone());
    }

    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        if !for_tests(&item.attrs) {
            self.with_bindings(&|b| b.visit_item_fn(item), |reader| {
                visit::visit_item_fn(reader, item)
            });
        }
    }

    fn visit_impl_item(&mut self, item: &ImplItem) {
        match item {
            ImplItem::Fn(f) if for_tests(&f.attrs) => {}
            ImplItem::Fn(f) => self
                .with_bindings(&|b| b.visit_impl_item_fn(f), |r| visit::visit_impl_item(r, item)),
            _ => visit::visit_impl_item(self, item),
        }
    }
}

/// The names that patterns bind.
struct Bindings(HashSet<String>);

impl Visit<'_> for Bindings {
    fn visit_pat(&mut self, pattern: &Pat) {
        if let Pat::Ident(PatIdent { ident, .. }) = pattern
            && ident.to_string().starts_with(char::is_lowercase)
        {
            self.0.insert(ident.to_string());
        }
        visit::visit_pat(self, pattern);
    }
}
