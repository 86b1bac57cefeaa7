//! Headers of real models become models.

use plimsoll::model::{Experts, TensorGroup};
use plimsoll::units::Bytes;

use crate::fixtures::model;
use crate::support;

#[test]
fn hyperparameters_are_read() {
    let llama = model("llama3.1-8b");
    assert_eq!((llama.architecture.as_str(), llama.file_type), ("llama", Some("Q4_K_M")));
    let hyper = &llama.hyper;
    assert_eq!((hyper.embedding, hyper.vocabulary, hyper.context_train), (Some(4096), Some(128_256), Some(131_072)));
    assert_eq!((&hyper.heads, &hyper.kv_heads, &hyper.feed_forward), (&vec![32; 32], &vec![8; 32], &vec![14_336; 32]));
    assert_eq!((hyper.key_length, hyper.value_length, hyper.ssm, hyper.experts), (Some(128), Some(128), None, None));
}

#[test]
fn experts_windows_and_recurrent_blocks_are_recognised() {
    let gptoss = model("gpt-oss-20b").hyper.clone();
    assert_eq!(gptoss.experts, Some(Experts { count: 32, used: 4 }));
    assert_eq!(gptoss.sliding_window, Some(128));

    let gemma = model("gemma-4-e2b").hyper.clone();
    assert!(gemma.sliding.contains(&true) && gemma.sliding.contains(&false));

    let hybrid = model("nemotron-3-nano-30b-a3b").hyper.clone();
    assert!(hybrid.ssm.is_some_and(|ssm| ssm.state_size > 0 && ssm.inner_size > 0));
    assert!(hybrid.kv_heads.contains(&0) && hybrid.kv_heads.iter().any(|&heads| heads > 0));
}

#[test]
fn weights_belong_to_their_parts() {
    assert!(model("qwen2.5-0.5b").is_output_tied());
    assert!(!model("llama3.1-8b").is_output_tied());
    assert!(model("mistral3").weights(TensorGroup::Projector) > Bytes::ZERO);
    for name in support::model_names() {
        let model = model(&name);
        let blocks = (0..model.block_count()).map(TensorGroup::Block);
        let groups =
            blocks.chain([TensorGroup::Output, TensorGroup::Input, TensorGroup::Projector, TensorGroup::Beyond]);
        assert_eq!(groups.map(|group| model.weights(group)).sum::<Bytes>(), model.bytes, "{name}");
    }
}

/// What publishers say that a token needs, in billions.
#[test]
fn active_parameters_are_what_a_token_reads() {
    for (name, published) in [
        ("gpt-oss-20b", 3.61),
        ("gpt-oss-120b", 5.13),
        ("qwen3-30b-a3b", 3.3),
        ("qwen3-235b-a22b", 22.0),
        ("mixtral-8x7b", 12.9),
        ("glm-4.5-air", 12.0),
        ("deepseek-v3-0324", 37.0),
        ("kimi-k2-instruct", 32.0),
        ("llama4-scout", 17.0),
        ("qwen3.8-flash-next", 6.0),
    ] {
        let model = plimsoll::catalogue::model(name).unwrap();
        let active = model.active_parameters as f64 / 1e9;
        assert!((active / published - 1.0).abs() < 0.12, "{name}: {active:.2} B, published {published} B");
    }
    // a dense model reads all but its table of tokens, which is its output matrix too where that is tied
    for (name, is_tied) in [("qwen3-8b", false), ("gemma3-4b", true)] {
        let model = plimsoll::catalogue::model(name).unwrap();
        assert_eq!((model.is_output_tied(), model.active_parameters == model.parameters), (is_tied, is_tied), "{name}");
    }
}
