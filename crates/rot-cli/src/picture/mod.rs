//! Pictures: every drawing can be written as SVG, in a page or a file, or as PNG.

mod curves;
mod dots;
mod heatmap;
mod panels;

use std::path::Path;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use png::{ColorType, Encoder};
use robust_ot_learn::data::write_atomic;

pub use self::curves::{Axis, Curve, Curves};
pub use self::dots::{Dot, Dots};
pub use self::heatmap::{Heatmap, metric_heatmap};
pub use self::panels::{Panel, Panels};
use crate::failure::Failure;
use crate::output::write_failure;

/// DejaVu Sans, reduced to Latin, Greek and some symbols; see assets/DejaVuSans-LICENSE.txt.
static FONT: &[u8] = include_bytes!("../../assets/DejaVuSans.ttf");
/// Guards the registration of the font.
static REGISTER: Once = Once::new();

/// The color scale, from dark for small values to light for large ones. Its even brightness is readable without color.
const SCALE: [(f64, f64, f64); 5] =
    [(68.0, 1.0, 84.0), (59.0, 82.0, 139.0), (33.0, 145.0, 140.0), (94.0, 201.0, 98.0), (253.0, 231.0, 37.0)];
/// The scale of signed numbers, from negative to positive, white at zero: RdBu of ColorBrewer, as in the plots of the Python package.
const DIVERGING: [(f64, f64, f64); 11] = [
    (5.0, 48.0, 97.0),
    (33.0, 102.0, 172.0),
    (67.0, 147.0, 195.0),
    (146.0, 197.0, 222.0),
    (209.0, 229.0, 240.0),
    (247.0, 247.0, 247.0),
    (253.0, 219.0, 199.0),
    (244.0, 165.0, 130.0),
    (214.0, 96.0, 77.0),
    (178.0, 24.0, 43.0),
    (103.0, 0.0, 31.0),
];
/// Colors of curves and dots, distinguishable for color-blind readers on white and on black (Okabe and Ito).
const SERIES: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(148, 148, 148),
];
/// The color of grid lines, visible on white and on black.
const GRID: RGBColor = RGBColor(160, 160, 160);

/// The result of drawing on a backend.
pub type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Something that can be drawn on any backend.
pub trait Drawing {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);
    /// Draws on a white area of that size. A dark page shows pure black as light.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Drawn<B>;
}

/// Renders a drawing as SVG text.
pub fn svg(drawing: &impl Drawing) -> Result<String, Failure> {
    register_font();
    let mut text = String::new();
    on_white(&SVGBackend::with_string(&mut text, drawing.size()).into_drawing_area(), drawing)
        .map_err(|error| Failure::Other(format!("a picture: {error}")))?;
    Ok(text)
}

/// Renders a drawing as PNG.
fn png(drawing: &impl Drawing) -> Result<Vec<u8>, Failure> {
    let (width, height) = drawing.size();
    let mut pixels = vec![0; 3 * width as usize * height as usize];
    on_white(&BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area(), drawing)
        .map_err(|error| Failure::Other(format!("a picture: {error}")))?;
    let mut whole = Vec::new();
    let mut encoder = Encoder::new(&mut whole, width, height);
    encoder.set_color(ColorType::Rgb);
    let written = encoder.write_header().and_then(|mut picture| picture.write_image_data(&pixels));
    written.map_err(|error| Failure::Other(format!("a picture: {error}")))?;
    Ok(whole)
}

/// Saves a drawing to a file: PNG if the path ends in .png, SVG otherwise.
pub fn save(drawing: &impl Drawing, path: &Path) -> Result<(), Failure> {
    register_font();
    if path.extension().is_some_and(|ending| ending == "png") {
        let picture = png(drawing)?;
        return write_atomic(path, |out| out.write_all(&picture)).map_err(write_failure);
    }
    let text = svg(drawing)?;
    write_atomic(path, |out| out.write_all(text.as_bytes())).map_err(write_failure)
}

/// Saves a drawing to two files, SVG and PNG.
pub fn save_both(drawing: &impl Drawing, folder: &Path, name: &str) -> Result<(), Failure> {
    ["svg", "png"].iter().try_for_each(|ending| save(drawing, &folder.join(format!("{name}.{ending}"))))
}

fn on_white<B: DrawingBackend>(area: &DrawingArea<B, Shift>, drawing: &impl Drawing) -> Drawn<B> {
    area.fill(&WHITE)?;
    drawing.draw(area)?;
    area.present()
}

/// Registers the font with plotters.
fn register_font() {
    REGISTER.call_once(|| {
        // Cannot fail: the font is built in, and a test draws with it.
        let _ = plotters::style::register_font("sans-serif", FontStyle::Normal, FONT);
    });
}

/// Black text of the given size.
pub fn text(size: i32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&BLACK)
}

/// The color of a value between 0 and 1.
pub fn color(part: f64) -> RGBColor {
    along(&SCALE, part)
}

/// The color of a signed value between −1 and 1.
fn signed_color(part: f64) -> RGBColor {
    along(&DIVERGING, 0.5 + part / 2.0)
}

/// The color at a place between the first (0) and the last (1) of a scale.
fn along(scale: &[(f64, f64, f64)], part: f64) -> RGBColor {
    let at = part.clamp(0.0, 1.0) * (scale.len() - 1) as f64;
    let lower = (at as usize).min(scale.len() - 2);
    let (from, to, part) = (scale[lower], scale[lower + 1], at - lower as f64);
    let mix = |x: f64, y: f64| (x + (y - x) * part).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// The color of the series with this number.
fn series_color(number: usize) -> RGBColor {
    SERIES[number % SERIES.len()]
}

/// Formats a number with about three digits at any magnitude.
fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".into()
    } else if !(1e-3..1e4).contains(&size) {
        format!("{value:.1e}")
    } else {
        format!("{value:.*}", (2 - size.log10().floor() as i32).clamp(0, 4) as usize)
    }
}

/// Shortens a label to the given number of characters and replaces control characters, which SVG does not allow.
fn shortened(label: &str, letters: usize) -> String {
    let printable = || label.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter });
    if printable().count() <= letters {
        return printable().collect();
    }
    printable().take(letters - 1).chain(['…']).collect()
}
