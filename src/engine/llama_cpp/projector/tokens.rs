//! How many tokens an input becomes, and how wide they are (`clip_n_output_tokens`, `clip_n_mmproj_embd` in `clip.cpp`,
//! 0.1.161).

use super::Encoder;
use super::kind::ProjectorType as P;
use super::measure::Input;

impl Encoder {
    /// Tokens of one input.
    pub fn tokens(&self, input: Input) -> u64 {
        match input {
            Input::Image { width, height, .. } => self.image_tokens(width, height),
            Input::Audio { frames } => self.audio_tokens(frames),
        }
    }

    fn image_tokens(&self, width: u64, height: u64) -> u64 {
        let hparams = &self.hparams;
        let (patch, merge) = (hparams.patch_size, hparams.n_merge);
        let (x, y) = (width / patch, height / patch);
        let patches = x * y;
        match self.kind {
            P::Yasa2 => 64,
            P::Ldp | P::LdpV2 => patches / 4,
            P::GlmEdge => patches / 4 + 2 * u64::from(self.weights.global("adapter.boi").is_some()),
            P::MiniCpmV => hparams.query_num,
            P::Qwen2Vl
            | P::Qwen25Vl
            | P::Qwen3Vl
            | P::Ling3Vl
            | P::Exaone45
            | P::MimoVl
            | P::MiniMaxM3
            | P::Glm4V
            | P::Glm5V
            | P::YoutuVl
            | P::MuseGlimmer => (width / (2 * patch)) * (height / (2 * patch)),
            P::Step3Vl => (width / (patch * merge)) * (height / (patch * merge)),
            P::MiniCpmV46
            | P::Gemma3
            | P::Gemma4V
            | P::Gemma4Uv
            | P::Idefics3
            | P::InternVl
            | P::NemotronV2Vl
            | P::Llama4 => patches / (merge * merge),
            P::Gemma3Nv => hparams.image_size / patch,
            P::Lfm2 | P::KimiVl | P::KimiK25 => {
                let unit = hparams.token_side();
                width.div_ceil(unit) * height.div_ceil(unit)
            }
            P::PaddleOcr | P::DotsOcr | P::Dots3NoteV => patches.div_ceil(merge * merge),
            P::Pixtral | P::LightOnOcr => {
                let (x, y) = (x / merge, y / merge);
                let breaks = self.weights.global("v.token_embd.img_break").is_some();
                x * y + if breaks { y.saturating_sub(1) } else { 0 }
            }
            P::CogVlm => patches + 2,
            P::HunyuanVl => (x / merge + 1) * (y / merge) + 2,
            _ => patches,
        }
    }

    fn audio_tokens(&self, frames: u64) -> u64 {
        let hparams = &self.hparams;
        match self.kind {
            P::Dots3NoteA => frames.div_ceil(8),
            P::Voxtral | P::Ultravox | P::Qwen2A | P::Meralion | P::MusicFlamingo => {
                let stacked =
                    if self.kind.stacks_frames() { frames.div_ceil(hparams.stack_factor.max(1)) } else { frames };
                let halved = stacked / 2;
                if self.kind.averages_pairs() { halved / 2 } else { halved }
            }
            P::Qwen3A => frames / 100 * 13,
            P::GlmA => frames / 2 / hparams.stack_factor.max(1) + 2,
            P::Lfm2A => frames.div_ceil(2).div_ceil(2).div_ceil(2),
            P::Gemma4A => frames.div_ceil(2).div_ceil(2),
            _ => frames,
        }
    }

    /// Elements of one token as the model receives it: with deepstack, of all levels together.
    pub fn n_embd_out(&self) -> u64 {
        let of = |name: &str, dimension: usize| self.weights.global(name).map(|at| self.weights.all[at].ne[dimension]);
        let deepstack =
            (0..self.hparams.n_layer).filter(|il| self.weights.in_block(*il, "deepstack.fc1.weight").is_some()).count();
        let width = match self.kind {
            P::Mlp => of("mm.3.bias", 0).or_else(|| of("mm.2.weight", 1)).or_else(|| of("mm.0.weight", 1)),
            P::Phi4
            | P::Pixtral
            | P::LightOnOcr
            | P::DotsOcr
            | P::Dots3NoteV
            | P::Lfm2
            | P::KimiVl
            | P::PaddleOcr
            | P::KimiK25
            | P::MuseGlimmer
            | P::DeepSeek4V
            | P::Qwen2Vl
            | P::Qwen25Vl
            | P::Exaone45
            | P::YoutuVl
            | P::Ling3Vl
            | P::MimoVl => of("mm.2.weight", 1),
            P::MiniCpmV => of("resampler.proj.weight", 0),
            P::MiniCpmV46 | P::Glm4V | P::Glm5V => of("mm.down.weight", 1),
            P::Qwen3Vl => of("mm.2.bias", 0).map(|width| width * (1 + deepstack as u64)),
            P::JanusPro => of("mm.1.bias", 0),
            P::Gemma3 | P::Gemma3Nv => of("mm.input_projection.weight", 0),
            P::Gemma4V | P::Gemma4Uv => of("mm.input_projection.weight", 1),
            P::Gemma4A | P::Gemma4Ua => of("mm.a.input_projection.weight", 1),
            P::Idefics3 | P::Llama4 | P::Step3Vl | P::HunyuanVl => of("mm.model.fc.weight", 1),
            P::Ultravox | P::Voxtral | P::MusicFlamingo | P::GlmA | P::Qwen3A => of("mm.a.mlp.2.weight", 1),
            P::Meralion => of("mm.a.mlp.3.weight", 1),
            P::InternVl | P::NemotronV2Vl => of("mm.model.mlp.3.weight", 1),
            P::Qwen2A => of("mm.a.fc.weight", 1),
            _ => None,
        };
        width.unwrap_or(self.hparams.projection_dim)
    }
}
