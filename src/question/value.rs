//! Parsers for the values of questions; errors list the accepted forms.

/// Tokens per second.
pub(crate) fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim().parse::<f64>().ok().filter(|speed| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| format!("'{text}' is not a speed: use tokens per second, such as 23.4"))
}
