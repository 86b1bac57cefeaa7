//! Encoders of audio (`models/*.cpp` in `tools/mtmd`, 0.1.161).

mod gemma4;
mod whisper;
