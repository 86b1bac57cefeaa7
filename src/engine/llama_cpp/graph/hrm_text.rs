//! HRM-Text: a high cycle runs the low stack of blocks several times and then the high stack, each from the sum of
//! both states (`models/hrm-text.cpp`, 0.1.161).

use super::GraphBuilder;
use crate::engine::ggml::tensor::TensorId;
use crate::engine::llama_cpp::transformer::Transformer;
use crate::engine::llama_cpp::weights::LlmTensor;

impl GraphBuilder<'_> {
    pub fn hrm_text(&mut self) {
        let kind = self.transformer_kind();
        let mut high = self.embeddings(false);
        let positions = self.positions();
        self.attention_inputs();
        let out_ids = self.out_ids();
        let mut low = self.need_global(LlmTensor::HrmZLInit);
        if let Some(hrm) = self.hp.hrm {
            let mut first = 0;
            for _ in 0..hrm.h_cycles {
                for pass in 0..=hrm.l_cycles {
                    let sum = self.g.add(high, low);
                    let state = self.stack(&kind, first..first + hrm.layers_per_stack, sum, positions);
                    *(if pass == hrm.l_cycles { &mut high } else { &mut low }) = state;
                    first += hrm.layers_per_stack;
                }
            }
        }
        let x = self.g.get_rows(high, out_ids);
        self.g[x].output = true;
        self.label(x, "result_norm", None);
        let logits = self.logits(x);
        self.close(logits);
    }

    /// One pass of a stack, normalised at its end.
    fn stack(
        &mut self,
        kind: &Transformer,
        blocks: std::ops::Range<usize>,
        mut x: TensorId,
        positions: TensorId,
    ) -> TensorId {
        for il in blocks {
            let normed = self.g.rms_norm(x);
            x = self.transformer_block(kind, il, x, normed, positions);
            self.label(x, "l_out", Some(il));
        }
        self.g.rms_norm(x)
    }
}
