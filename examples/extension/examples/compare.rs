//! Runs the attack of this crate beside one of the project's, on exact scores and behind the defense of this crate.

use nalgebra::DVector;
use vfl_attack::{Attack, HalfStar};
use vfl_core::types::ReleasedScores;
use vfl_defense::{Defense, Noise};

use cloison_extension::world::World;
use cloison_extension::{Floor, NearestToMean};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (k, d) = (5, 8);
    let world = World::new(k, d, 1000);
    let exact = world.scores();
    let ReleasedScores::Probabilities(scores) = exact.clone() else {
        return Err("scores are probabilities".into());
    };
    let defended = Floor::new(0.05, k)?.apply(scores, &Noise::fresh([0; 32]))?;
    let attacks: [(&str, Box<dyn Attack>); 3] = [
        ("half_star, clipped", Box::new(HalfStar { clamped: true })),
        ("nearest to the means", Box::new(NearestToMean { means: world.means() })),
        ("nearest to 1/2", Box::new(NearestToMean { means: DVector::from_element(d, 0.5) })),
    ];
    println!("{:<22} {:>12} {:>12}", "mean squared error", "exact", "floor 0.05");
    for (name, attack) in attacks {
        let (on_exact, on_defended) =
            (world.error(&*attack, &exact)?, world.error(&*attack, &defended)?);
        println!("{name:<22} {on_exact:>12.5} {on_defended:>12.5}");
    }
    Ok(())
}
