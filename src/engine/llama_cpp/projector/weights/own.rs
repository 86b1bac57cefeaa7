//! What each type's loader asks for besides what all have in common (`load_tensors` in `clip.cpp`, 0.1.161).

use super::super::kind::ProjectorType as P;

/// A type's tensors: outside blocks, then in every block. `.*` stands for a weight and its bias, `.*?` for one whose
/// bias may be missing, `.??` for both that may be, and `?` marks any other that may be missing.
pub(super) struct Own {
    /// Outside blocks.
    pub globals: &'static [&'static str],
    /// In every block, asked for after those outside.
    pub block: &'static [&'static str],
}

/// The tensors of a type's own; none if they are not known.
pub(super) const fn tensors(kind: P) -> Option<Own> {
    let block: &[&str] = match kind {
        P::Gemma4A => &GEMMA4_AUDIO_BLOCK,
        P::Lfm2A => &CONFORMER_BLOCK,
        _ => &[],
    };
    let ((Some(globals), ..) | (_, Some(globals), _) | (.., Some(globals))) =
        (dynamic_images(kind), other_images(kind), audio(kind))
    else {
        return None;
    };
    Some(Own { globals, block })
}

/// Types that read images of many sizes, and the `SigLIP` encoders.
const fn dynamic_images(kind: P) -> Option<&'static [&'static str]> {
    Some(match kind {
        P::Qwen2Vl | P::Qwen25Vl | P::Qwen3Vl | P::Exaone45 | P::Phi4 => &["mm.0.*", "mm.2.*"],
        P::Ling3Vl => &["mm.input_norm.*", "mm.0.*", "mm.2.*"],
        P::MimoVl => &["mm.0.*?", "mm.2.*?"],
        P::MiniMaxM3 => &["mm.1.*", "mm.2.*", "mm.merger.fc1.*", "mm.merger.fc2.*"],
        P::MuseGlimmer => &["mm.0.weight", "mm.1.weight", "mm.2.weight"],
        P::Step3Vl => &["mm.0.*?", "mm.1.*?", "mm.model.fc.weight"],
        P::YoutuVl => &["mm.input_norm.weight", "mm.0.*", "mm.2.*"],
        P::Glm4V | P::Glm5V => {
            &["mm.model.fc.weight", "mm.up.*?", "mm.gate.*?", "mm.down.*?", "mm.post_norm.*?", "mm.patch_merger.*"]
        }
        P::Gemma3 => &["mm.input_projection.weight", "mm.soft_emb_norm.weight"],
        P::Gemma4V => &["mm.input_projection.weight", "v.std_bias?", "v.std_scale?"],
        P::Gemma4Uv => &["mm.input_projection.weight", "v.patch_norm.1.*", "v.patch_norm.2.*", "v.patch_norm.3.*"],
        P::Idefics3 => &["mm.model.fc.weight"],
        P::Lfm2 => &["mm.input_norm.??", "mm.1.*", "mm.2.*"],
        P::KimiVl | P::PaddleOcr | P::KimiK25 => &["mm.input_norm.*", "mm.1.*", "mm.2.*"],
        P::Pixtral => {
            &["mm.1.*?", "mm.2.*?", "v.token_embd.img_break", "mm.input_norm.weight?", "mm.patch_merger.weight?"]
        }
        P::LightOnOcr => &["mm.1.*?", "mm.2.*?", "mm.input_norm.weight?", "mm.patch_merger.weight?"],
        P::DotsOcr | P::Dots3NoteV => &["mm.0.*", "mm.2.*", "mm.input_norm.*", "mm.post_norm.weight"],
        _ => return None,
    })
}

/// Types that read images of one size, or tiles.
const fn other_images(kind: P) -> Option<&'static [&'static str]> {
    Some(match kind {
        P::Mlp => &["mm.0.??", "mm.1.??", "mm.2.??", "mm.3.??", "mm.4.??", "v.image_newline?"],
        P::Ldp => &[
            "mm.model.mlp.1.*",
            "mm.model.mlp.3.*",
            "mm.model.mb_block.1.block.0.0.weight",
            "mm.model.mb_block.1.block.0.1.*",
            "mm.model.mb_block.1.block.1.fc1.*",
            "mm.model.mb_block.1.block.1.fc2.*",
            "mm.model.mb_block.1.block.2.0.weight",
            "mm.model.mb_block.1.block.2.1.*",
            "mm.model.mb_block.2.block.0.0.weight",
            "mm.model.mb_block.2.block.0.1.*",
            "mm.model.mb_block.2.block.1.fc1.*",
            "mm.model.mb_block.2.block.1.fc2.*",
            "mm.model.mb_block.2.block.2.0.weight",
            "mm.model.mb_block.2.block.2.1.*",
        ],
        P::LdpV2 => &["mm.model.mlp.0.*", "mm.model.mlp.2.*", "mm.model.peg.0.*"],
        P::MiniCpmV => &[
            "resampler.pos_embed_k",
            "resampler.query",
            "resampler.proj.weight",
            "resampler.kv.weight",
            "resampler.attn.q.weight",
            "resampler.attn.k.weight",
            "resampler.attn.v.weight",
            "resampler.attn.q.bias",
            "resampler.attn.k.bias",
            "resampler.attn.v.bias",
            "resampler.attn.out.*",
            "resampler.ln_q.*",
            "resampler.ln_kv.*",
            "resampler.ln_post.*",
        ],
        P::MiniCpmV46 => &[
            "v.vit_merger.ln1.??",
            "v.vit_merger.attn_q.??",
            "v.vit_merger.attn_k.??",
            "v.vit_merger.attn_v.??",
            "v.vit_merger.attn_out.??",
            "v.vit_merger.ds_ln.??",
            "v.vit_merger.ds_ffn_up.??",
            "v.vit_merger.ds_ffn_down.??",
            "mm.input_norm.*?",
            "mm.up.*?",
            "mm.down.*?",
        ],
        P::GlmEdge => &[
            "adapter.conv.*",
            "adapter.linear.linear.weight",
            "adapter.linear.norm1.*",
            "adapter.linear.dense_h_to_4h.weight",
            "adapter.linear.gate.weight",
            "adapter.linear.dense_4h_to_h.weight",
            "adapter.boi",
            "adapter.eoi",
        ],
        P::DeepSeek4V => &[
            "mm.1.*",
            "mm.2.*",
            "v.image_newline",
            "v.token_embd.img_start",
            "v.token_embd.img_end",
            "v.token_embd.img_pad",
        ],
        P::InternVl => &["mm.model.mlp.0.*", "mm.model.mlp.1.*", "mm.model.mlp.3.*"],
        P::NemotronV2Vl => &["mm.model.mlp.0.weight", "mm.model.mlp.1.weight", "mm.model.mlp.3.weight"],
        P::Llama4 => &["mm.model.fc.weight", "mm.model.mlp.1.weight", "mm.model.mlp.2.weight"],
        P::CogVlm => &[
            "mm.model.fc.weight",
            "mm.post_fc_norm.*",
            "mm.up.weight",
            "mm.gate.weight",
            "mm.down.weight",
            "v.boi",
            "v.eoi",
        ],
        P::HunyuanVl => &[
            "mm.0.*",
            "mm.2.*",
            "mm.model.fc.*",
            "mm.pre_norm.weight",
            "mm.post_norm.weight",
            "mm.image_begin",
            "mm.image_end",
            "v.image_newline",
            "v.view_seperator?",
        ],
        P::JanusPro => &["mm.0.*", "mm.1.*"],
        _ => return None,
    })
}

/// Types that read audio.
const fn audio(kind: P) -> Option<&'static [&'static str]> {
    Some(match kind {
        P::Gemma4A => &[
            "a.conv1d.0.*?",
            "a.conv1d.0.norm.weight?",
            "a.conv1d.1.*?",
            "a.conv1d.1.norm.weight?",
            "a.input_projection.*?",
            "a.pre_encode.out.??",
            "mm.a.soft_emb_norm.weight?",
            "mm.a.input_projection.weight?",
        ],
        P::Gemma4Ua => &["mm.a.input_projection.weight"],
        P::Ultravox => &[
            "a.conv1d.1.*",
            "a.conv1d.2.*",
            "mm.a.mlp.1.weight",
            "mm.a.mlp.2.weight",
            "mm.a.norm_pre.weight",
            "mm.a.norm_mid.weight",
        ],
        P::Meralion => &[
            "a.conv1d.1.*",
            "a.conv1d.2.*",
            "mm.a.mlp.0.*",
            "mm.a.mlp.1.*",
            "mm.a.mlp.2.*",
            "mm.a.mlp.3.*",
            "mm.a.norm_pre.*",
        ],
        P::Qwen2A => &["a.conv1d.1.*", "a.conv1d.2.*", "mm.a.fc.*"],
        P::Qwen3A => {
            &["a.conv2d.1.*", "a.conv2d.2.*", "a.conv2d.3.*", "a.conv_out.weight", "mm.a.mlp.1.*", "mm.a.mlp.2.*"]
        }
        P::Voxtral => &["a.conv1d.1.*", "a.conv1d.2.*", "mm.a.mlp.1.weight", "mm.a.mlp.2.weight"],
        P::MusicFlamingo => &["a.conv1d.1.*", "a.conv1d.2.*", "mm.a.mlp.1.*", "mm.a.mlp.2.*"],
        P::GlmA => {
            &["a.conv1d.1.*", "a.conv1d.2.*", "mm.a.mlp.1.*", "mm.a.mlp.2.*", "mm.a.norm_pre.*", "v.boi", "v.eoi"]
        }
        P::Lfm2A => &[
            "a.conv1d.0.*",
            "a.conv1d.2.*",
            "a.conv1d.3.*",
            "a.conv1d.5.*",
            "a.conv1d.6.*",
            "a.pre_encode.out.*",
            "mm.a.mlp.0.*",
            "mm.a.mlp.1.*",
            "mm.a.mlp.3.*",
        ],
        _ => return None,
    })
}

/// Gemma 4's audio blocks.
const GEMMA4_AUDIO_BLOCK: [&str; 21] = [
    "ffn_norm.weight",
    "attn_pre_norm.weight?",
    "per_dim_scale.weight?",
    "per_dim_k_scale.weight?",
    "attn_k_rel.weight?",
    "conv_norm.weight?",
    "conv_norm.bias?",
    "conv_pw1.weight",
    "conv_pw1.bias?",
    "conv_dw.weight",
    "conv_dw.bias?",
    "norm_conv.weight?",
    "norm_conv.bias?",
    "conv_pw2.weight",
    "conv_pw2.bias?",
    "ffn_norm_1.weight",
    "ffn_up_1.weight",
    "ffn_up_1.bias?",
    "ffn_down_1.weight",
    "ffn_down_1.bias?",
    "ffn_post_norm_1.weight?",
];

/// Conformer blocks.
const CONFORMER_BLOCK: [&str; 21] = [
    "ffn_norm.weight",
    "ffn_norm.bias",
    "ffn_norm_1.weight",
    "ffn_norm_1.bias",
    "ffn_up_1.weight",
    "ffn_up_1.bias",
    "ffn_down_1.weight",
    "ffn_down_1.bias",
    "pos_bias_u",
    "pos_bias_v",
    "norm_conv.weight",
    "norm_conv.bias",
    "linear_pos.weight",
    "conv_norm.weight",
    "conv_norm.bias",
    "conv_dw.weight",
    "conv_dw.bias",
    "conv_pw1.weight",
    "conv_pw1.bias",
    "conv_pw2.weight",
    "conv_pw2.bias",
];
