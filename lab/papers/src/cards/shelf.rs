//! The cards that come with the program, and cards in a folder.

use std::path::Path;

use include_dir::{Dir, include_dir};
use serde::Deserialize;

use super::card::{Card, CardError};

/// The folder `lab/papers/cards`.
static CARDS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/cards");

/// A paper that has cards.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The letter of the paper.
    pub letter: String,
    /// Authors and title.
    pub name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Papers {
    paper: Vec<Paper>,
}

/// All cards, with their papers.
#[derive(Debug, Clone)]
pub struct Shelf {
    /// The papers, in the order of the page.
    pub papers: Vec<Paper>,
    /// The cards, in the order of their papers and items.
    pub cards: Vec<Card>,
}

const PAPERS: &str = "papers.toml";

fn read_papers(text: &str) -> Result<Vec<Paper>, CardError> {
    let wrong = |e: toml::de::Error| CardError::File { file: PAPERS.into(), reason: e.to_string() };
    toml::from_str::<Papers>(text).map(|papers| papers.paper).map_err(wrong)
}

/// Returns the papers of the cards that come with the program.
fn own_papers() -> Result<Vec<Paper>, CardError> {
    let text = CARDS.get_file(PAPERS).and_then(include_dir::File::contents_utf8);
    read_papers(
        text.ok_or_else(|| CardError::File { file: PAPERS.into(), reason: "is missing".into() })?,
    )
}

/// Returns the cards that come with the program.
///
/// # Errors
/// [`CardError`] with the card that is wrong.
pub fn shelf() -> Result<Shelf, CardError> {
    let cards = CARDS.files().filter_map(|file| {
        let name = file.path().file_name()?.to_str()?;
        let id = name.strip_suffix(".toml").filter(|id| *id != "papers")?;
        Some(Card::read(id, file.contents_utf8().unwrap_or_default()))
    });
    sorted(own_papers()?, cards.collect::<Result<_, _>>()?)
}

/// Reads the cards of a folder: all `NAME.toml` in it except `papers.toml`, whose papers are added
/// to those of the program.
///
/// # Errors
/// [`CardError`] if the folder cannot be read or has no card, or with the card that is wrong.
pub fn read_folder(folder: &Path) -> Result<Shelf, CardError> {
    let wrong = |reason: String| CardError::File { file: folder.display().to_string(), reason };
    let mut cards = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| wrong(e.to_string()))? {
        let path = entry.map_err(|e| wrong(e.to_string()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(id) = name.strip_suffix(".toml").filter(|id| *id != "papers") else { continue };
        let text = std::fs::read_to_string(&path).map_err(|e| wrong(format!("{name}: {e}")))?;
        cards.push(Card::read(id, &text)?);
    }
    if cards.is_empty() {
        return Err(wrong("has no card; a card is a file NAME.toml".into()));
    }
    let mut papers = own_papers()?;
    if let Ok(text) = std::fs::read_to_string(folder.join(PAPERS)) {
        let more = read_papers(&text)?.into_iter();
        for paper in more {
            match papers.iter().find(|own| own.letter == paper.letter) {
                None => papers.push(paper),
                Some(own) if *own == paper => {}
                Some(own) => {
                    return Err(wrong(format!(
                        "{PAPERS}: the letter {} is taken by {}",
                        own.letter, own.name
                    )));
                }
            }
        }
    }
    sorted(papers, cards)
}

/// Sorts by paper, then by item: figures by number, then tables by number, then by name.
fn sorted(papers: Vec<Paper>, mut cards: Vec<Card>) -> Result<Shelf, CardError> {
    for card in &cards {
        if papers.iter().all(|paper| paper.letter != card.paper) {
            let reason = format!(
                "`paper = \"{}\"` is in no entry of papers.toml; a papers.toml in the folder of the cards is read too",
                card.paper
            );
            return Err(CardError::Card { id: card.id.clone(), reason });
        }
        if !card.id.starts_with(&format!("{}-", card.paper.to_lowercase())) {
            let reason = format!(
                "its file is to be called {}-NAME.toml, after its paper",
                card.paper.to_lowercase()
            );
            return Err(CardError::Card { id: card.id.clone(), reason });
        }
    }
    let number = |item: &str| {
        let digits: String = item
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse::<u32>().unwrap_or(u32::MAX)
    };
    cards.sort_by_cached_key(|card| {
        let paper = papers.iter().position(|paper| paper.letter == card.paper);
        (
            paper,
            card.item.starts_with("table"),
            number(&card.item),
            card.item.clone(),
            card.id.clone(),
        )
    });
    Ok(Shelf { papers, cards })
}
