//! What ggml's operations do, a sentence each (`ggml.h`, 0.1.161).

use super::tensor::Op;

impl Op {
    /// What it computes, as one sentence.
    pub const fn description(self) -> &'static str {
        match self {
            Self::None => "No operation: a weight, a cache or an input, which is there before the graph runs.",
            Self::Dup => "Copies a tensor.",
            Self::Cpy => "Copies a tensor into another one, of another type or layout if need be.",
            Self::Cont => "Copies a tensor so that its elements lie in order.",
            Self::Concat => "Puts two tensors behind one another.",
            Self::Repeat => "Repeats a tensor up to the size of another one.",
            Self::Pad => "Adds zeros at the ends of rows.",
            Self::Roll => "Shifts elements along a row, around its end.",
            Self::Set => "Writes a tensor into a part of another one.",
            Self::SetRows => {
                "Writes rows into the rows of a tensor that a list names: so new keys and values get into the KV cache."
            }
            Self::GetRows => "Picks the rows of a tensor that a list names: so tokens become embeddings.",
            Self::View => "Looks at a part of a tensor; nothing is copied, and it needs no memory.",
            Self::Reshape => "Looks at a tensor with other dimensions; nothing is copied.",
            Self::Permute => "Looks at a tensor with its dimensions in another order; nothing is copied.",
            Self::Transpose => "Looks at a tensor with rows and columns exchanged; nothing is copied.",
            Self::Add => "Adds two tensors, element by element.",
            Self::AddId => "Adds to each token's rows those of the experts that it uses.",
            Self::Sub => "Subtracts a tensor from another one, element by element.",
            Self::Mul => "Multiplies two tensors, element by element; it is no matrix product.",
            Self::Div => "Divides two tensors, element by element.",
            Self::Scale => "Multiplies all elements by one number.",
            Self::MulMat => {
                "Multiplies two matrices, mostly weights and the tokens of the batch: most of the work is here."
            }
            Self::MulMatId => "Multiplies each token with the matrices of the experts that it uses.",
            Self::RmsNorm => "Divides each row by its root mean square.",
            Self::Norm => "Shifts and scales each row to mean 0 and variance 1.",
            Self::L2Norm => "Divides each row by its length.",
            Self::GroupNorm => "Shifts and scales groups of rows to mean 0 and variance 1.",
            Self::Rope => "Turns pairs of elements by angles that depend on the token's position.",
            Self::RopeBack => "Turns them back.",
            Self::SoftMax => "Makes each row of scores positive with sum 1, after adding the mask.",
            Self::FlashAttn => {
                "Attention in one operation: it goes through the KV cache piece by piece, so that the scores are never stored."
            }
            Self::Glu => {
                "A gated activation: one tensor, activated, times another one of the same size, or the two halves of one."
            }
            Self::Unary => "An activation of each element, such as SiLU or GELU.",
            Self::Clamp => "Limits all elements to a range.",
            Self::Sqr => "Squares all elements.",
            Self::Sqrt => "Takes the square root of all elements.",
            Self::Sin => "Takes the sine of all elements.",
            Self::Cos => "Takes the cosine of all elements.",
            Self::Argmax => "Finds the largest element of each row.",
            Self::Argsort => "Sorts the places of each row by its elements: so experts are chosen.",
            Self::TopK => "Finds the places of the largest elements of each row.",
            Self::SumRows => "Adds up each row.",
            Self::Mean => "Takes the mean of each row.",
            Self::CumSum => "Adds up each row element by element, and keeps all sums on the way.",
            Self::Arange => "Makes a row of numbers at equal distances.",
            Self::Fill => "Fills a tensor with one number.",
            Self::Diag => "Makes a diagonal matrix of a row.",
            Self::Tri => "Keeps the part of a matrix above or below its diagonal.",
            Self::SolveTri => "Solves linear equations with a triangular matrix.",
            Self::SsmConv => "Convolves the last few tokens, channel by channel, in a recurrent block.",
            Self::SsmScan => "Takes a state-space block's state from token to token.",
            Self::GatedDeltaNet => "Takes a gated delta network's state from token to token.",
            Self::GatedLinearAttn => "Takes a gated linear attention's state from token to token.",
            Self::RwkvWkv6 => "Takes the state of an RWKV 6 block from token to token.",
            Self::RwkvWkv7 => "Takes the state of an RWKV 7 block from token to token.",
            Self::Im2Col => "Lays the patches of an image out as rows, so that a convolution becomes a matrix product.",
            Self::Pool1d => "Takes the mean or the largest of neighbours in a row.",
            Self::Pool2d => "Takes the mean or the largest of neighbours in an image.",
            Self::Upscale => "Enlarges an image.",
            Self::LightningIndexer => "Scores every cell of the KV cache, to choose those that attention reads.",
            Self::HcPre => "Adds up several rows of a token, each by its share.",
            Self::HcPost => "Adds a result to several rows of a token, to each by its share.",
            Self::HcComb => "Computes the shares in which rows of a token are mixed.",
        }
    }
}
