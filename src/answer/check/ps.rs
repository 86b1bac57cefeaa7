//! Which settings would show what `ollama ps` shows.
