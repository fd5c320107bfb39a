//! The search along one parameter whose score rises to a maximum and falls again: λ on a geometric grid.

use robust_ot::Result;

/// The steps of the grid, as powers of √10 below the unit of λ.
const GRID: (i32, i32) = (-6, 16);

/// Climbs from `start` to the place with the best score. `score` returns `None` once interrupted, and so does the climb.
pub(super) fn climb(
    start: i32,
    mut score: impl FnMut(i32) -> Result<Option<f64>>,
) -> Result<Option<(i32, f64)>> {
    let start = start.clamp(GRID.0, GRID.1);
    let Some(first) = score(start)? else { return Ok(None) };
    let mut best = (start, first);
    for step in [1, -1] {
        loop {
            let next = best.0 + step;
            if !(GRID.0..=GRID.1).contains(&next) {
                break;
            }
            let Some(found) = score(next)? else { return Ok(None) };
            if found <= best.1 {
                break;
            }
            best = (next, found);
        }
        // Whoever has moved came from the other side.
        if best.0 != start {
            break;
        }
    }
    Ok(Some(best))
}

/// λ at a place of the grid.
pub(super) fn l2_at(unit: f64, place: i32) -> f64 {
    unit * 10.0_f64.powf(-0.5 * f64::from(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_of_a_hill_is_found_from_anywhere() {
        for top in GRID.0..=GRID.1 {
            for start in GRID.0 - 3..=GRID.1 + 3 {
                let mut seen = Vec::new();
                let found = climb(start, |place| {
                    assert!(!seen.contains(&place), "{place} is scored twice");
                    seen.push(place);
                    Ok(Some(-f64::from((place - top).pow(2))))
                });
                assert_eq!(found.unwrap().unwrap().0, top);
            }
        }
        assert!(climb(0, |_| Ok(None)).unwrap().is_none());
    }
}
