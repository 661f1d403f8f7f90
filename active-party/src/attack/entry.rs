//! An attack in the register: its name, its settings, and how it is made from them.

use super::Attack;
use super::settings::{AnySetting, Settings};

/// What an attack is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// It runs on any model whose parameters are known, and takes the release for the true scores.
    General,
    /// It takes the release for the true scores, and runs on some models only (of one passive feature, of few dimensions), or takes
    /// much longer than the general ones.
    Special,
    /// It knows the policy or suspects a transform.
    Adaptive,
    /// It needs more than a release and parameters: records of the adversary's own, or the help of another party.
    Helped,
    /// It knows moments of the features or records whole, or is the control of those that do.
    Informed,
}

/// What chooses the attack that another one runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// Nothing: it is always the same.
    Fixed,
    /// The setting `base`: an attack to end in.
    Base,
    /// The setting `evidence`: an attack whose evidence counts, and not its estimates.
    Evidence,
}

/// The attack that another one runs in the end.
#[derive(Clone, Copy)]
pub struct Base {
    /// Its name, where none is chosen.
    pub name: fn(&Settings) -> &'static str,
    /// What chooses it.
    pub chosen: Chosen,
    /// Whether it runs without its own clipping to [0, 1].
    pub unclipped: bool,
}

impl Base {
    /// Chosen by the setting `base`, `clamped_half_star` by default.
    pub const CHOSEN: Self = Self { name: |_| "clamped_half_star", chosen: Chosen::Base, unclipped: false };
}

/// How an attack is made from its settings.
#[derive(Clone, Copy)]
pub enum Build {
    /// By itself.
    Alone(fn(&Settings) -> Box<dyn Attack>),
    /// Upon another attack.
    Upon(Base, fn(&Settings, Box<dyn Attack>) -> Box<dyn Attack>),
}

/// An attack in the register.
pub struct Entry {
    /// The name.
    pub name: &'static str,
    /// What it is for.
    pub group: Group,
    /// Its settings, beside those of all attacks and `base`.
    pub settings: &'static [&'static dyn AnySetting],
    /// The attack with its settings.
    pub build: Build,
    /// Whether it applies what is known of the features by itself. For the others the register puts the features' ranges on
    /// [0, 1] and moves estimates of discrete features to their levels.
    pub informed: bool,
    /// The same attack without its clipping to [0, 1], where it clips.
    pub unclipped: Option<&'static Entry>,
}

impl Entry {
    /// An attack without settings of its own.
    pub const fn new(name: &'static str, group: Group, build: fn(&Settings) -> Box<dyn Attack>) -> Self {
        Self { name, group, settings: &[], build: Build::Alone(build), informed: false, unclipped: None }
    }

    /// An attack that runs another one in the end, and has no settings of its own. It applies what is known of the features.
    pub const fn upon(
        name: &'static str,
        group: Group,
        base: Base,
        build: fn(&Settings, Box<dyn Attack>) -> Box<dyn Attack>,
    ) -> Self {
        Self { name, group, settings: &[], build: Build::Upon(base, build), informed: true, unclipped: None }
    }
}
