//! Policies on the wire.

use super::{DefenseConfig, NoiseMode, Policy, Template};
use crate::rpc::{WireError, pb, require};

impl From<Template> for pb::defense::Template {
    fn from(template: Template) -> Self {
        match template {
            Template::Identity => Self::Identity,
            Template::Householder => Self::Householder,
            Template::Fisip => Self::Fisip,
        }
    }
}

fn template(value: i32) -> Result<Template, WireError> {
    match pb::defense::Template::try_from(value) {
        Ok(pb::defense::Template::Identity) => Ok(Template::Identity),
        Ok(pb::defense::Template::Householder) => Ok(Template::Householder),
        Ok(pb::defense::Template::Fisip) => Ok(Template::Fisip),
        _ => Err(WireError::Range { field: "template", reason: "identity, householder or fisip" }),
    }
}

impl TryFrom<&pb::Defense> for DefenseConfig {
    type Error = WireError;

    fn try_from(defense: &pb::Defense) -> Result<Self, WireError> {
        use pb::defense::Kind;
        Ok(match require("defense", defense.kind.as_ref())? {
            Kind::None(_) => Self::None {},
            Kind::LogitNoise(d) => Self::LogitNoise { scheme: d.scheme, alpha: d.alpha },
            Kind::Temperature(d) => Self::Temperature { temperature: d.temperature },
            Kind::Rounding(d) => Self::Rounding { decimals: d.decimals },
            Kind::TopK(d) => Self::TopK { k: d.k },
            Kind::ClassLabel(d) => Self::ClassLabel { softening: d.softening },
            Kind::GaussianNoise(d) => Self::GaussianNoise { sigma: d.sigma },
            Kind::DpGaussian(d) => Self::DpGaussian { epsilon: d.epsilon, delta: d.delta, sensitivity: d.sensitivity },
            Kind::PriveeDp(d) => Self::PriveeDp {
                sigma: d.sigma,
                epsilon: d.epsilon,
                delta: d.delta,
                sensitivity: d.sensitivity,
                template: template(d.template)?,
                as_published: d.as_published,
            },
            Kind::PriveeDpPlusPlus(d) => Self::PriveeDpPlusPlus {
                sigma: d.sigma.clone(),
                epsilon: d.epsilon.clone(),
                delta: d.delta,
                sensitivity: d.sensitivity,
                template: template(d.template)?,
                as_published: d.as_published,
            },
            Kind::OrderPreservingEncryption(_) => Self::OrderPreservingEncryption {},
            Kind::Ranking(_) => Self::Ranking {},
            Kind::Codebook(d) => Self::Codebook { size: d.size },
        })
    }
}

impl From<&DefenseConfig> for pb::Defense {
    fn from(config: &DefenseConfig) -> Self {
        use pb::defense::{self as wire, Kind};
        let kind = match config.clone() {
            DefenseConfig::None {} => Kind::None(wire::None {}),
            DefenseConfig::LogitNoise { scheme, alpha } => Kind::LogitNoise(wire::LogitNoise { scheme, alpha }),
            DefenseConfig::Temperature { temperature } => Kind::Temperature(wire::Temperature { temperature }),
            DefenseConfig::Rounding { decimals } => Kind::Rounding(wire::Rounding { decimals }),
            DefenseConfig::TopK { k } => Kind::TopK(wire::TopK { k }),
            DefenseConfig::ClassLabel { softening } => Kind::ClassLabel(wire::ClassLabel { softening }),
            DefenseConfig::GaussianNoise { sigma } => Kind::GaussianNoise(wire::GaussianNoise { sigma }),
            DefenseConfig::DpGaussian { epsilon, delta, sensitivity } => {
                Kind::DpGaussian(wire::DpGaussian { epsilon, delta, sensitivity })
            }
            DefenseConfig::PriveeDp { sigma, epsilon, delta, sensitivity, template, as_published } => {
                let template = pb::defense::Template::from(template).into();
                Kind::PriveeDp(wire::PriveeDp { sigma, epsilon, delta, sensitivity, template, as_published })
            }
            DefenseConfig::PriveeDpPlusPlus { sigma, epsilon, delta, sensitivity, template, as_published } => {
                let template = pb::defense::Template::from(template).into();
                Kind::PriveeDpPlusPlus(wire::PriveeDpPlusPlus {
                    sigma,
                    epsilon,
                    delta,
                    sensitivity,
                    template,
                    as_published,
                })
            }
            DefenseConfig::OrderPreservingEncryption {} => {
                Kind::OrderPreservingEncryption(wire::OrderPreservingEncryption {})
            }
            DefenseConfig::Ranking {} => Kind::Ranking(wire::Ranking {}),
            DefenseConfig::Codebook { size } => Kind::Codebook(wire::Codebook { size }),
        };
        Self { kind: Some(kind) }
    }
}

/// The most scales of one defense: one for each class.
const MAX_SCALES: usize = 65_536;
/// The most defenses of one policy.
const MAX_DEFENSES: usize = 8;

impl TryFrom<&pb::Policy> for Policy {
    type Error = WireError;

    fn try_from(policy: &pb::Policy) -> Result<Self, WireError> {
        let long = |d: &pb::Defense| matches!(&d.kind, Some(pb::defense::Kind::PriveeDpPlusPlus(p)) if p.sigma.len().max(p.epsilon.len()) > MAX_SCALES);
        if policy.defenses.iter().any(long) {
            return Err(WireError::Range { field: "privee_dp_plus_plus", reason: "at most 65536 scales" });
        }
        if policy.defenses.len() > MAX_DEFENSES {
            let (unit, got) = ("defenses", policy.defenses.len());
            return Err(WireError::Size { field: "policy", unit, expected: MAX_DEFENSES, got });
        }
        Ok(Self {
            defenses: policy.defenses.iter().map(DefenseConfig::try_from).collect::<Result<_, _>>()?,
            noise: if policy.fresh_noise { NoiseMode::Fresh } else { NoiseMode::Keyed },
            unbound_shares: policy.unbound_shares,
        })
    }
}

impl From<&Policy> for pb::Policy {
    fn from(policy: &Policy) -> Self {
        Self {
            defenses: policy.defenses.iter().map(pb::Defense::from).collect(),
            fresh_noise: policy.noise == NoiseMode::Fresh,
            unbound_shares: policy.unbound_shares,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defense_comes_back_from_the_wire() {
        for text in [
            "none",
            "logit_noise (scheme = 2, alpha = 4.0)",
            "temperature (temperature = 2.5)",
            "rounding (decimals = 2)",
            "top_k (k = 3)",
            "class_label (softening = 0.01)",
            "gaussian_noise (sigma = 0.1)",
            "dp_gaussian (epsilon = 0.5)",
            "privee_dp (epsilon = 0.1, template = \"householder\")",
            "privee_dp (sigma = 48.0)",
            "privee_dp_plus_plus (sigma = [1.0, 2.0, 3.0], template = \"fisip\", as_published = true)",
            "order_preserving_encryption",
            "ranking",
            "codebook (size = 64)",
            "none, fresh noise, unbound shares",
        ] {
            let policy: Policy = text.parse().unwrap();
            assert_eq!(Policy::try_from(&pb::Policy::from(&policy)).unwrap(), policy, "{text}");
        }
        let many = pb::Policy { defenses: vec![pb::Defense::from(&DefenseConfig::None {}); 9], ..Default::default() };
        assert!(Policy::try_from(&many).is_err());
        assert!(DefenseConfig::try_from(&pb::Defense { kind: None }).is_err());
    }
}
