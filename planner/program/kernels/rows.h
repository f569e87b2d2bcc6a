// The kernels, one row each, which is all that the planner says of a kernel. Enumerators and names
// (ops.h, names.cpp), checks of operands and attributes (verify, the reader of the text), demand
// and traffic (cost), the kernel sets that have it and the types that a backend takes derive from
// it. Each reader defines ZPLAN_KERNEL(Id, name, fields of KernelRow...) and includes this file,
// which undefines it. README.md beside it says what else a kernel needs.
//   .operands    in order, as kernel_signature.h writes them. A letter of a shape stands for a size
//                of one rank's operands and is the same size throughout its row only. Most often b
//                is the sequences and s the tokens of each, T all tokens, h the hidden size, k and
//                n the columns that a product takes and gives, a the query heads and g those groups
//                of them that share a key, w what a group has side by side (queries, key, value),
//                d the size of a head and v of its value, f the width of the MLP, e the experts,
//                Vp the padded vocabulary
//   .attributes  names in order; "?": may be left out and is 0 then
//   .demand      work, from the operands (kernel_table.cpp)
//   .sets        which kernel sets have it; left out: all
//   .layer_product  a matrix product of a layer, which sets with fp8 compute in fp8
//   .traffic     what it moves over its compulsory traffic; left out: as elementwise kernels do
//   .scratch     what it needs by its shapes; left out: as much as the kernel set declares
//   .source      where the arithmetic is defined; keys of models/REFERENCES.md
//   .what        what it computes
#ifndef ZPLAN_KERNEL
#error "define ZPLAN_KERNEL(Id, name, ...) before this file"
#endif

ZPLAN_KERNEL(
    LoadBatch, "load_batch", .operands = "tokens:wi[b,s+1]",
    .attributes = "sequences global_batch first begin? loaded? V? ahead?", .kind = kHost,
    .demand = host_work, .source = "[derived]",
    .what =
        "Loads the rank's rows of a micro-batch of `sequences` of all replicas; `first` "
        "is the rank's first of them. They may be parts of the job's sequences, which begin "
        "with token `begin`. `loaded` (masked_tokens.h) 1: with masked tokens, of a vocabulary of "
        "V; 2: only these, as targets, -1 beside them. With `ahead` n the tokens are those that "
        "come n later in the data; behind its end it begins again.")
ZPLAN_KERNEL(
    StepScalars, "step_scalars", .operands = "scalars:wd[11] clip:rd[2]? loss_scale:ud[3]?",
    .attributes = "lag? updates?", .kind = kHost, .demand = host_work,
    .source = "[Loshchilov19 Algorithm 2]",
    .what =
        "Fills the scalars (step_scalars.h); with `lag` 1 updates lag a step behind. Where a "
        "step has `updates`, one after each micro-batch, they lag so many of these. With "
        "clip and loss_scale it adapts the loss scale to the last step's norm.")
ZPLAN_KERNEL(
    EmbeddingForward, "embedding_forward",
    .operands = "tokens:ri[b,s+1] wte:rc[Vp,h] x:wc[b,s,h] wpe:rc[s,h]?",
    .attributes = "first? squared_scale?", .kind = kMem, .demand = embedding_forward,
    .source = "[Radford19]",
    .what =
        "Looks up a piece of the vocabulary that begins with token `first`: tokens "
        "outside look up 0, and only the first piece adds positions. With squared_scale n the "
        "table's rows are taken sqrt(n) times.")
ZPLAN_KERNEL(LayerNormForward, "layer_norm_forward",
             .operands = "x:rc[T,h] gain:rc[h] bias:rc[h] y:wc[T,h] mean:wt[T] rstd:wt[T]",
             .attributes = "epsilon?", .kind = kMem, .demand = streaming<8, 0>, .source = "[Ba16]",
             .what = "y = (x - mean) rstd gain + bias, by row.")
ZPLAN_KERNEL(LinearForward, "linear_forward",
             .operands = "x:rc[T,k] w:rc[k,n] bias:rc[n] y:wc[T,n] scratch:s", .kind = kGemm,
             .demand = matmul<0, 1>, .layer_product = true, .scratch = cast_scratch<matmul<0, 1>>,
             .source = "[derived]", .what = "y = x w + bias.")
ZPLAN_KERNEL(
    AttentionForward, "attention_forward",
    .operands = "qkv:rc[b,s,g,w] out:wc[b,s,a,v] lse:wt[b,a,s] scratch:s",
    .attributes = "window? cap? divisor? slopes? first_head? both_ways? heads_per_tile?",
    .kind = kAtt, .demand = attention<0, 1, false>, .sets = Sets::kFusedAttention,
    .source = "[Dao22 sec 3]",
    .what =
        "A query sees the keys up to its own, with `window` the last so many, `both_ways` 1 "
        "all. Scores are divided by sqrt(divisor), that of the head size if 0, capped by "
        "cap tanh(score / cap), and lowered by the distance times a slope of each head "
        "[Press22] where `slopes` says how many heads the model has; that of the first one "
        "is `first_head`, `heads_per_tile` further for each tile. qkv holds a query heads, g key "
        "heads of the same size and g value "
        "heads of v elements side by side, g w elements; query head i uses key-value head "
        "i / (a / g).")
ZPLAN_KERNEL(GeluForward, "gelu_forward", .operands = "x:rc[*] y:wc[*]=x",
             .attributes = "function?", .kind = kMem, .demand = streaming<9 + kExp, 0>,
             .source = "[Hendrycks16]",
             .what = "y = gelu(x), or another function of attribute_values.h.")
ZPLAN_KERNEL(ResidualAdd, "residual_add", .operands = "x:rc[*] y:rc[*] out:wc[*]=x=y", .kind = kMem,
             .demand = streaming<1, 0>, .source = "[derived]", .what = "out = x + y.")
ZPLAN_KERNEL(HeadForward, "head_forward",
             .operands = "x:rc[T,h] wte:rc[Vp,h] logits:wc[T,Vp] scratch:s", .kind = kGemm,
             .demand = matmul<0, 1>, .source = "[derived]", .what = "logits = x wte^T.")
ZPLAN_KERNEL(CrossEntropy, "cross_entropy",
             .operands = "logits:uc[b*s,Vp] tokens:ri[b,s+1] loss:ud[1] scalars:rd[11]?",
             .attributes = "V global_tokens first cap?", .kind = kMem,
             .demand = streaming<4 + kExp, 0>, .traffic = Traffic::kLoss, .source = "[Milakov18]",
             .what =
                 "Turns logits into the gradient of the loss times the loss scale and adds to the "
                 "loss. V tokens of the vocabulary are real; the loss is a mean over "
                 "global_tokens; the piece begins with token `first`. With `cap` logits are cap "
                 "tanh(x / cap).")
ZPLAN_KERNEL(HeadInputGradient, "head_input_gradient",
             .operands = "dlogits:rc[T,Vp] wte:rc[Vp,h] dx:wc[T,h] scratch:s", .kind = kGemm,
             .demand = input_gradient<0, 1>, .source = "[derived]", .what = "dx = dlogits wte.")
ZPLAN_KERNEL(HeadWeightGradient, "head_weight_gradient",
             .operands = "dlogits:rc[T,Vp] x:rc[T,h] dwte:ag[Vp,h] scratch:s", .kind = kGemm,
             .demand = weight_gradient<0, 2>, .source = "[derived]",
             .what = "dwte = dlogits^T x, or adds it.")
ZPLAN_KERNEL(LayerNormBackward, "layer_norm_backward",
             .operands =
                 "dy:rc[T,h] x:rc[T,h] mean:rt[T] rstd:rt[T] gain:rc[h] dx:ac[T,h] dgain:ag[h] "
                 "dbias:ag[h] scratch:s",
             .kind = kMem, .demand = streaming<14, 0>, .source = "[Ba16]",
             .what = "Is the gradient of layer_norm_forward.")
ZPLAN_KERNEL(LinearInputGradient, "linear_input_gradient",
             .operands = "dy:rc[T,n] w:rc[k,n] dx:ac[T,k] scratch:s", .kind = kGemm,
             .demand = input_gradient<0, 1>, .layer_product = true,
             .scratch = cast_scratch<input_gradient<0, 1>>, .source = "[derived]",
             .what = "dx = dy w^T, or adds it.")
ZPLAN_KERNEL(LinearWeightGradient, "linear_weight_gradient",
             .operands = "x:rc[T,k] dy:rc[T,n] dw:ag[k,n] dbias:ag[n] scratch:s", .kind = kGemm,
             .demand = weight_gradient<0, 2>, .layer_product = true,
             .scratch = cast_scratch<weight_gradient<0, 2>>, .source = "[derived]",
             .what = "dw = x^T dy and dbias = sums of the columns of dy, or adds them.")
ZPLAN_KERNEL(
    AttentionBackward, "attention_backward",
    .operands =
        "dout:rc[b,s,a,v] qkv:rc[b,s,g,w] out:rc[b,s,a,v] lse:rt[b,a,s] dqkv:wc[b,s,g,w] scratch:s",
    .attributes = "window? cap? divisor? slopes? first_head? both_ways? heads_per_tile?",
    .kind = kAtt, .demand = attention<1, 0, true>, .sets = Sets::kFusedAttention,
    .scratch = attention_backward_scratch, .source = "[Dao22 sec 3]",
    .what = "Is the gradient of attention_forward, which it computes again from lse.")
ZPLAN_KERNEL(GeluBackward, "gelu_backward", .operands = "x:rc[*] dy:uc[*]",
             .attributes = "function?", .kind = kMem, .demand = streaming<18 + kExp, 0>,
             .source = "[Hendrycks16]", .what = "dy becomes dy gelu'(x).")
ZPLAN_KERNEL(
    EmbeddingBackward, "embedding_backward",
    .operands = "tokens:ri[b,s+1] dx:rc[b,s,h] dwte:ag[Vp,h] dwpe:ag[s,h]? scratch:s",
    .attributes = "first? squared_scale?", .kind = kMem, .demand = embedding_backward,
    .scratch = embedding_backward_scratch, .source = "[Radford19]",
    .what =
        "Gives the gradients of a piece of the vocabulary, as embedding_forward looks it up, "
        "and of the positions.")
ZPLAN_KERNEL(FillZero, "fill_zero", .operands = "x:w*[*]", .kind = kMem, .demand = streaming<0, 0>,
             .traffic = Traffic::kCompulsory, .source = "[derived]", .what = "x = 0.")
ZPLAN_KERNEL(Accumulate, "accumulate", .operands = "x:rm[n] y:uh[n]", .kind = kMem,
             .demand = streaming<1, 0>, .traffic = Traffic::kCompulsory, .source = "[derived]",
             .what = "y = x + y, in the type of y.")
ZPLAN_KERNEL(SumSquares, "sum_squares", .operands = "x:rq[n] sum:ud[1]",
             .attributes = "first? shared_from? tensor_member? copy?", .kind = kMem,
             .demand = streaming<2, 0>, .traffic = Traffic::kOptimizer, .source = "[PyTorch]",
             .what =
                 "Adds the squares of a shard that begins with flat element `first`. From element "
                 "`shared_from` on (-1: nowhere) all tensor parallel ranks have the same, of which "
                 "those of `tensor_member` 0 count; of copies of the shard only `copy` 0 counts.")
ZPLAN_KERNEL(
    ClipCoefficient, "clip_coefficient", .operands = "sum:rd[1] scalars:rd[11] clip:wd[2]",
    .attributes = "rounds?", .kind = kMem, .demand = streaming<4, 0>,
    .traffic = Traffic::kOptimizer, .source = "[PyTorch]",
    .what =
        "Takes the sum of squares of gradients that the loss scale multiplied. With `rounds` 1 the "
        "norm is rounded to f32, so that the order of the sum does not show.")
ZPLAN_KERNEL(
    AdamW, "adamw",
    .operands = "master:uo[n] m:uv[n] v:uv[n] grad:rq[n] scalars:rd[11] clip:rd[2] param:wp[n]?",
    .attributes = "first decay_end unit", .kind = kMem, .demand = streaming<15, 0>,
    .traffic = Traffic::kOptimizer, .source = "[Loshchilov19 Algorithm 2]",
    .what =
        "Writes param only when the recipe keeps a separate compute copy. A negative clip factor "
        "or an inactive step leaves the states as they are. 16-bit masters round stochastically, "
        "drawn by `unit`. The shard begins with flat element `first`; those before `decay_end` "
        "decay.")
ZPLAN_KERNEL(
    Sgd, "sgd", .operands = "master:uo[n] grad:rq[n] scalars:rd[11] clip:rd[2] param:wp[n]?",
    .attributes = "first decay_end unit", .kind = kMem, .demand = streaming<4, 0>,
    .traffic = Traffic::kOptimizer, .source = "[PyTorch]",
    .what =
        "Goes down the gradient, to which those that decay add their own values. All else as "
        "adamw.")
ZPLAN_KERNEL(SgdMomentum, "sgd_momentum",
             .operands = "master:uo[n] m:uv[n] grad:rq[n] scalars:rd[11] clip:rd[2] param:wp[n]?",
             .attributes = "first decay_end unit", .kind = kMem, .demand = streaming<6, 0>,
             .traffic = Traffic::kOptimizer, .source = "[PyTorch]",
             .what = "Does what sgd does, along m = beta1 m + gradient.")
// [derived] 15 as adamw; a code is found by 8 comparisons, a value by a product, and the greatest
// of a block by one comparison, for each of two moments
ZPLAN_KERNEL(
    AdamW8Bit, "adamw_8bit",
    .operands =
        "master:uo[n] m:uk[n] v:uk[n] m_scale:ut[k] v_scale:ut[k] grad:rq[n] scalars:rd[11] "
        "clip:rd[2] param:wp[n]?",
    .attributes = "first decay_end unit", .kind = kMem, .demand = streaming<35, 0>,
    .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kOptimizer, .source = "[Dettmers22 sec 2]",
    .what =
        "Does what adamw does with moments of a byte each: the number of a value that their block, "
        "n / k neighbours, has a scale for.")
ZPLAN_KERNEL(MuonMomentum, "muon_momentum",
             .operands = "m:uv[n] grad:rq[n] scalars:rd[11] clip:rd[2] update:wt[n]",
             .attributes = "first decay_end unit", .kind = kMem, .demand = streaming<6, 0>,
             .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kOptimizer, .source = "[Jordan24]",
             .what =
                 "m = beta1 m + (1 - beta1) gradient, update = beta1 m + (1 - beta1) gradient; 0, "
                 "and m as it "
                 "is, where adamw would leave the states.")
ZPLAN_KERNEL(
    Orthogonalise, "orthogonalise",
    .operands = "x:ut[r,c] next:wt[r,c] gram:wt[q,q] polynomial:wt[q,q]", .kind = kGemm,
    .demand = newton_schulz, .sets = Sets::kPlannedOnCuda, .source = "[Jordan24]",
    .what =
        "Five steps x = a x + (b g + c g g) x of the normalised x, g = x x^T of q rows, or of "
        "columns where they are fewer; then times 0.2 sqrt(max(r, c)). The others are scratch.")
ZPLAN_KERNEL(Muon, "muon",
             .operands = "master:uo[n] update:rt[n] scalars:rd[11] clip:rd[2] param:wp[n]?",
             .attributes = "first decay_end unit", .kind = kMem, .demand = streaming<4, 0>,
             .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kOptimizer, .source = "[Jordan24]",
             .what = "Decays as adamw does and goes down the update. All else as adamw.")
// [derived] of a rank's piece of a unit the part that is of one tensor, of `matrices` x `rows` x
// `columns` elements, of a vector of `rows` and 0 columns. The piece begins with flat element
// `first`, the tensor with `begin`; `counted` elements are expected of the part. m numbers are a
// row's each and then a column's each, all rows of all matrices first.
ZPLAN_KERNEL(AdafactorGradient, "adafactor_gradient",
             .operands = "grad:rq[n] scalars:rd[11] clip:rd[2] update:wt[n]",
             .attributes = "first decay_end unit", .kind = kMem, .demand = streaming<1, 0>,
             .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kOptimizer, .source = "[PyTorch]",
             .what = "update = the clipped gradient, or 0 where adamw would leave the states.")
ZPLAN_KERNEL(AdafactorSums, "adafactor_sums",
             .operands = "update:rt[n] master:ro[n] sums:wd[m] size:wd[1]",
             .attributes = "first begin unit matrices rows columns counted", .kind = kMem,
             .demand = part_of_pieces<6, 2>, .sets = Sets::kPlannedOnCuda,
             .traffic = Traffic::kOptimizer, .source = "[Shazeer18 Algorithm 4]",
             .what =
                 "sums = squares of the update by row and by column, size = squares of the master, "
                 "over the part.")
ZPLAN_KERNEL(
    AdafactorFactors, "adafactor_factors",
    .operands = "update:ut[n] moments:uv[m] sums:rd[m] scalars:rd[11] clip:rd[2] squares:wd[1]",
    .attributes = "first begin unit matrices rows columns counted", .kind = kMem,
    .demand = part_of_pieces<8, 1>, .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kOptimizer,
    .source = "[Shazeer18 Algorithm 4]",
    .what =
        "Moves the moments towards the means that the sums make, by t^-0.8, unless the step is to "
        "leave them, and divides the part by the root of what row and column make of its second "
        "moment; squares = those of the result.")
ZPLAN_KERNEL(AdafactorScale, "adafactor_scale",
             .operands = "update:ut[n] size:rd[1] squares:rd[1] scalars:rd[11]",
             .attributes = "first begin unit matrices rows columns counted", .kind = kMem,
             .demand = part_of_pieces<1, 1>, .sets = Sets::kPlannedOnCuda,
             .traffic = Traffic::kOptimizer, .source = "[Shazeer18 Algorithm 4]",
             .what =
                 "Multiplies the part so that learning rate times it is the step: it is divided by "
                 "its root mean square where that is above 1, times that of the parameters, at "
                 "least 0.001, times what 1 / sqrt(t) is of the learning rate, at most 1.")
ZPLAN_KERNEL(
    RoundFp8, "round_fp8", .operands = "x:rc[r,c] y:wc[r,c]", .attributes = "rows columns e5m2?",
    .kind = kMem, .demand = streaming<12, 0>, .sets = Sets::kRoundsToFp8,
    .source = "[DeepSeek24b sec 3.3.2]",
    .what =
        "y = x in e4m3 [Micikevicius22], or with `e5m2` 1 in that, times a scale for each block of "
        "`rows` x `columns`, the last ones smaller: the one that makes its greatest that of the "
        "format.")
// [derived] a table is looked up and a product taken; a scale of 8 bits takes one more of every 64
ZPLAN_KERNEL(
    Dequantise, "dequantise", .operands = "codes:rk[m] scales:rt[n] y:wc[e]", .attributes = "fp4?",
    .kind = kMem, .demand = streaming<2, 2>, .sets = Sets::kPlannedOnCuda,
    .source = "[Dettmers23 sec 3]",
    .what =
        "y = the value of each code times the scale of its 64 neighbours, two codes a byte, the "
        "first in its upper half: NormalFloat, or with `fp4` 1 four-bit floats.")
ZPLAN_KERNEL(
    DequantiseDouble, "dequantise_double",
    .operands = "codes:rk[m] scales:rk[n] constants:rt[p] y:wc[e]", .attributes = "fp4?",
    .kind = kMem, .demand = streaming<2, 3>, .sets = Sets::kPlannedOnCuda,
    .source = "[Dettmers23 sec 3]",
    .what =
        "Does what dequantise does with scales of 8 bits: so many 255ths of the constant of their "
        "256 neighbours.")
ZPLAN_KERNEL(
    QuantizeRows, "quantize_rows", .operands = "x:rc[r,k] q:wk[r,c]", .attributes = "block?",
    .kind = kMem, .demand = part_of_product, .sets = Sets::kCodes,
    .source = "[DeepSeek24b sec 3.3.2]",
    .what =
        "q = the codes of x in the set's format and, behind those of each row, its scales: "
        "one for each `block` of them, 0: for all.")
ZPLAN_KERNEL(DequantizeRows, "dequantize_rows", .operands = "q:rk[r,c] x:wc[r,k]",
             .attributes = "block?", .kind = kMem, .demand = part_of_product, .sets = Sets::kCodes,
             .source = "[DeepSeek24b sec 3.3.2]",
             .what = "x = what the codes stand for (quantize_rows), as round_fp8 gives it.")
ZPLAN_KERNEL(
    Report, "report", .operands = "loss:rd[1] clip:rd[2] experts:rd[2]?",
    .attributes = "copies? losses?", .kind = kHost, .demand = host_work, .source = "[derived]",
    .what =
        "Hands loss and norm of the step to the run and, of experts, dropped choices, each of "
        "which was counted `copies` times, and the auxiliary loss. The loss is the mean of "
        "`losses` "
        "that are added up; 0: of one.")
ZPLAN_KERNEL(MatmulForward, "matmul_forward", .operands = "x:rc[T,k] w:rc[k,n] y:ac[T,n] scratch:s",
             .kind = kGemm, .demand = matmul<0, 1>, .layer_product = true,
             .scratch = cast_scratch<matmul<0, 1>>, .source = "[derived]",
             .what =
                 "y = x w, or adds to y: the bias of row-parallel layers is added once, after the "
                 "sum over ranks and tiles.")
ZPLAN_KERNEL(MatmulWeightGradient, "matmul_weight_gradient",
             .operands = "x:rc[T,k] dy:rc[T,n] dw:ag[k,n] scratch:s", .kind = kGemm,
             .demand = weight_gradient<0, 2>, .layer_product = true,
             .scratch = cast_scratch<weight_gradient<0, 2>>, .source = "[derived]",
             .what = "dw = x^T dy, or adds it.")
ZPLAN_KERNEL(BiasGradient, "bias_gradient", .operands = "dy:rc[T,n] dbias:ag[n] scratch:s",
             .kind = kMem, .demand = streaming<1, 0>, .source = "[derived]",
             .what = "dbias = sums of the columns of dy, or adds them.")
ZPLAN_KERNEL(BiasResidualAdd, "bias_residual_add",
             .operands = "x:rc[T,h] y:rc[T,h] bias:rc[h] out:wc[T,h]=x=y", .kind = kMem,
             .demand = streaming<2, 0>, .source = "[derived]", .what = "out = x + y + bias.")
ZPLAN_KERNEL(RmsNormForward, "rms_norm_forward",
             .operands = "x:rc[T,h] gain:rc[h] y:wc[T,h] rstd:wt[T]", .attributes = "epsilon?",
             .kind = kMem, .demand = streaming<4, 0>, .source = "[Zhang19]",
             .what = "y = x rstd gain, by row.")
ZPLAN_KERNEL(
    RmsNormBackward, "rms_norm_backward",
    .operands = "dy:rc[T,h] x:rc[T,h] rstd:rt[T] gain:rc[h] dx:ac[T,h] dgain:ag[h] scratch:s",
    .kind = kMem, .demand = streaming<10, 0>, .source = "[Zhang19]",
    .what = "Is the gradient of rms_norm_forward.")
// [derived] sine and cosine of an angle count as one exp; a rotation is 6 per pair
ZPLAN_KERNEL(
    Rope, "rope", .operands = "qkv:uc[b,s,n,d]",
    .attributes = "heads theta direction first? size? stretch?", .kind = kMem,
    .demand = streaming<3 + kExp, 0>, .source = "[Su21]",
    .what =
        "Turns the first `heads` heads, queries and keys, by angles of base `theta`; "
        "`direction` is 1, or -1 in backward. `first`: the position of the first of s tokens. Of a "
        "head the first `size` elements turn, all if 0, as if positions were `stretch` times "
        "closer.")
ZPLAN_KERNEL(Scale, "scale", .operands = "x:uc[*]", .attributes = "numerator denominator root?",
             .kind = kMem, .demand = streaming<1, 0>, .source = "[derived]",
             .what = "x = x numerator / denominator, or with `root` 1 the root of that.")
ZPLAN_KERNEL(SwigluForward, "swiglu_forward", .operands = "x:rc[T,2*f] y:wc[T,f]",
             .attributes = "function? limit? offset?", .kind = kMem,
             .demand = streaming<2 + kExp / 2, 0>, .source = "[Shazeer20]",
             .what =
                 "y = silu(gate) up, or another function; x holds gate and up side by side. With "
                 "`limit`, in units of 1e-9, gate is taken as at most that and up as between minus "
                 "that and it; `offset` is added to up [Agarwal25].")
ZPLAN_KERNEL(SwigluBackward, "swiglu_backward", .operands = "x:rc[T,2*f] dy:rc[T,f] dx:wc[T,2*f]",
             .attributes = "function? limit? offset?", .kind = kMem,
             .demand = streaming<5 + kExp / 2, 0>, .source = "[Shazeer20]",
             .what = "Is the gradient of swiglu_forward.")
ZPLAN_KERNEL(AttentionScores, "attention_scores",
             .operands = "qkv:rc[b,s,g,w] scores:wc[b,a,s,s] scratch:s",
             .attributes = "value_size divisor?", .kind = kGemm, .demand = attention_scores,
             .sets = Sets::kUnfusedAttention, .source = "[Vaswani17 Eq.1]",
             .what = "scores = q k^T / sqrt(divisor or d), unmasked, of heads of d elements.")
ZPLAN_KERNEL(
    SoftmaxForward, "softmax_forward", .operands = "scores:uc[b,a,s,s] sinks:rc[a]?",
    .attributes = "window? slopes? first_head? both_ways? heads_per_tile?", .kind = kMem,
    .demand = streaming<4 + kExp, 0>, .sets = Sets::kUnfusedAttention, .traffic = Traffic::kSoftmax,
    .source = "[Vaswani17 Eq.1]",
    .what =
        "Masks and normalises scores in place, as attention_forward says. With sinks every "
        "row has one more score, of no value, which is its head's [Xiao24].")
ZPLAN_KERNEL(AttentionContext, "attention_context",
             .operands = "probs:rc[b,a,s,s] qkv:rc[b,s,g,w] out:wc[b,s,a,v] scratch:s",
             .kind = kGemm, .demand = attention_context<0, 2>, .sets = Sets::kUnfusedAttention,
             .source = "[Vaswani17 Eq.1]", .what = "out = probs v.")
ZPLAN_KERNEL(AttentionContextGradient, "attention_context_gradient",
             .operands = "dout:rc[b,s,a,v] qkv:rc[b,s,g,w] dprobs:wc[b,a,s,s] scratch:s",
             .kind = kGemm, .demand = attention_context<2, 0>, .sets = Sets::kUnfusedAttention,
             .source = "[derived]", .what = "dprobs = dout v^T.")
ZPLAN_KERNEL(SoftmaxBackward, "softmax_backward",
             .operands = "probs:rc[b,a,s,s] dprobs:uc[b,a,s,s] dsinks:ag[a]?",
             .attributes = "both_ways?", .kind = kMem, .demand = streaming<4, 0>,
             .sets = Sets::kUnfusedAttention, .traffic = Traffic::kSoftmax, .source = "[derived]",
             .what = "Turns the gradient of the probabilities into that of the scores.")
ZPLAN_KERNEL(AttentionScoresGradient, "attention_scores_gradient",
             .operands =
                 "dscores:rc[b,a,s,s] probs:rc[b,a,s,s] dout:rc[b,s,a,v] qkv:rc[b,s,g,w] "
                 "dqkv:wc[b,s,g,w] scratch:s",
             .attributes = "divisor?", .kind = kGemm, .demand = attention_scores_gradient,
             .sets = Sets::kUnfusedAttention, .source = "[derived]",
             .what = "Gives the gradients of q and k from that of the scores, and of v from dout.")
ZPLAN_KERNEL(CrossEntropyStatistics, "cross_entropy_statistics",
             .operands = "logits:rc[b*s,Vp] tokens:ri[b,s+1] statistics:wt[b*s,3]",
             .attributes = "V global_tokens first cap?", .kind = kMem,
             .demand = streaming<2 + kExp, 0>, .traffic = Traffic::kLoss,
             .source = "[Shoeybi19 sec 3]",
             .what =
                 "Writes maximum, sum of exp(x - maximum), and the logit of the target or 0, of a "
                 "piece of the vocabulary.")
ZPLAN_KERNEL(
    CrossEntropyParallel, "cross_entropy_parallel",
    .operands =
        "logits:uc[b*s,Vp] tokens:ri[b,s+1] statistics:rt[k,b*s,3] loss:ud[1] scalars:rd[11]?",
    .attributes = "V global_tokens first cap?", .kind = kMem, .demand = streaming<4 + kExp, 0>,
    .traffic = Traffic::kLoss, .source = "[Shoeybi19 sec 3]",
    .what = "Does what cross_entropy does, from the statistics of all k pieces.")
ZPLAN_KERNEL(Cast, "cast", .operands = "x:ra[n] y:wb[n]", .kind = kMem, .demand = streaming<1, 0>,
             .traffic = Traffic::kCompulsory, .source = "[derived]",
             .what = "y = x in another type.")
// [derived] what stands beside a product counts no flop: it is done while results are stored
ZPLAN_KERNEL(LinearGeluForward, "linear_gelu_forward",
             .operands = "x:rc[T,k] w:rc[k,n] bias:rc[n] sum:wc[T,n] y:wc[T,n] scratch:s",
             .kind = kGemm, .demand = matmul<0, 1>, .sets = Sets::kFusedNeighbours,
             .layer_product = true, .scratch = cast_scratch<matmul<0, 1>>,
             .source = "[Hendrycks16]", .what = "sum = x w + bias, y = gelu(sum).")
ZPLAN_KERNEL(GeluInputGradient, "gelu_input_gradient",
             .operands = "dy:rc[T,n] w:rc[k,n] x:rc[T,k] dx:wc[T,k] scratch:s", .kind = kGemm,
             .demand = input_gradient<0, 1>, .sets = Sets::kFusedNeighbours, .layer_product = true,
             .scratch = cast_scratch<input_gradient<0, 1>>, .source = "[Hendrycks16]",
             .what = "dx = dy w^T gelu'(x).")
ZPLAN_KERNEL(ResidualLayerNormForward, "residual_layer_norm_forward",
             .operands =
                 "x:rc[T,h] y:rc[T,h] bias:rc[h] gain:rc[h] shift:rc[h] sum:wc[T,h] out:wc[T,h] "
                 "mean:wt[T] rstd:wt[T]",
             .attributes = "epsilon?", .kind = kMem, .demand = streaming<10, 0>,
             .sets = Sets::kFusedNeighbours, .source = "[Ba16]",
             .what = "sum = x + y + bias, out = norm of sum, as layer_norm_forward.")
ZPLAN_KERNEL(ResidualRmsNormForward, "residual_rms_norm_forward",
             .operands = "x:rc[T,h] y:rc[T,h] gain:rc[h] sum:wc[T,h] out:wc[T,h] rstd:wt[T]",
             .attributes = "epsilon?", .kind = kMem, .demand = streaming<5, 0>,
             .sets = Sets::kFusedNeighbours, .source = "[Zhang19]",
             .what = "sum = x + y, out = norm of sum, as rms_norm_forward.")
ZPLAN_KERNEL(
    DropoutForward, "dropout_forward", .operands = "x:rc[*] mask:wk[*] y:wc[*]",
    .attributes = "sequences first layers tokens? row? begin? first_head? heads_per_tile?",
    .kind = kMem, .demand = streaming<2 + kDraw, 0>, .sets = Sets::kDropout,
    .source = "[Srivastava14]",
    .what =
        "y = x mask / (1 - rate). Draws mask, a byte of 0 or 1 per element, from step, part, "
        "layer, "
        "sequence of the step, position and column, or head, query and key: not from how the step "
        "is cut. A micro-batch has `sequences` of all replicas, `first` is the rank's first; loops "
        "count `layers` at a time. Rows of tokens begin with row `row` of sequences of `tokens`, "
        "which begin with position `begin`; scores with head `first_head`, `heads_per_tile` more "
        "for each tile.")
ZPLAN_KERNEL(DropoutBackward, "dropout_backward", .operands = "dy:rc[*] mask:rk[*] dx:wc[*]",
             .kind = kMem, .demand = streaming<2, 0>, .sets = Sets::kDropout,
             .source = "[Srivastava14]", .what = "dx = dy mask / (1 - rate).")
ZPLAN_KERNEL(DropoutResidualAdd, "dropout_residual_add",
             .operands = "x:rc[T,h] y:rc[T,h] out:wc[T,h] mask:wk[T,h] bias:rc[h]?",
             .attributes = "sequences first layers tokens row? begin?", .kind = kMem,
             .demand = streaming<4 + kDraw, 0>, .sets = Sets::kDropout, .source = "[Srivastava14]",
             .what = "out = x + dropout of (y + bias), as dropout_forward; bias may be absent.")
ZPLAN_KERNEL(SplitColumns, "split_columns", .operands = "x:rc[T,c*m] y:wc[c,T,m]",
             .attributes = "first? second?", .kind = kMem, .demand = streaming<0, 0>,
             .source = "[derived]",
             .what =
                 "Cuts the columns of x into c pieces, each stored by itself. Columns are segments "
                 "side by side, `first` and `second` of them wide and the rest; a piece has its "
                 "equal part of each, side by side again.")
ZPLAN_KERNEL(JoinColumns, "join_columns", .operands = "x:rc[c,T,m] y:wc[T,c*m]",
             .attributes = "first? second?", .kind = kMem, .demand = streaming<0, 0>,
             .source = "[derived]", .what = "Undoes split_columns.")
ZPLAN_KERNEL(HeadNormForward, "head_norm_forward",
             .operands = "x:uc[b,s,n,d] gain:rc[d] kept:wc[b,s,m,d] rstd:wt[b,s,m]",
             .attributes = "first? epsilon?", .kind = kMem, .demand = in_heads<4, 2>,
             .source = "[Zhang19]",
             .what =
                 "Keeps m heads, from head `first` on, and makes them x rstd gain in place, each "
                 "over its d elements.")
ZPLAN_KERNEL(
    HeadNormBackward, "head_norm_backward",
    .operands = "dx:uc[b,s,n,d] x:rc[b,s,m,d] rstd:rt[b,s,m] gain:rc[d] dgain:ag[d] scratch:s",
    .attributes = "first?", .kind = kMem, .demand = in_heads<10, 1>, .source = "[Zhang19]",
    .what = "Is the gradient of head_norm_forward, in place; x is what that kept.")
ZPLAN_KERNEL(CentredNormForward, "centred_norm_forward",
             .operands = "x:rc[T,h] y:wc[T,h] mean:wt[T] rstd:wt[T] gain:rc[h]?",
             .attributes = "epsilon?", .kind = kMem, .demand = streaming<7, 0>,
             .sets = Sets::kPlannedOnCuda, .source = "[Ba16]",
             .what = "y = (x - mean) rstd gain, by row; without a gain it is 1.")
ZPLAN_KERNEL(CentredNormBackward, "centred_norm_backward",
             .operands =
                 "dy:rc[T,h] x:rc[T,h] mean:rt[T] rstd:rt[T] dx:ac[T,h] gain:rc[h]? dgain:ag[h]? "
                 "scratch:s",
             .kind = kMem, .demand = streaming<13, 0>, .sets = Sets::kPlannedOnCuda,
             .source = "[Ba16]", .what = "Is the gradient of centred_norm_forward.")
// These norms of heads together have two steps; ranks that share heads add up sums in between.
ZPLAN_KERNEL(WholeNormSquares, "whole_norm_squares",
             .operands = "x:rc[b,s,n,d] kept:wc[b,s,m,d] sums:wt[b*s]", .attributes = "first?",
             .kind = kMem, .demand = some_heads<2, 1>, .sets = Sets::kPlannedOnCuda,
             .source = "[Zhang19]",
             .what = "Keeps m heads, from head `first` on, and adds up the squares of a token's.")
ZPLAN_KERNEL(WholeNormForward, "whole_norm_forward",
             .operands = "x:uc[b,s,n,d] kept:rc[b,s,m,d] sums:rt[b*s] gain:rc[m,d]",
             .attributes = "first width epsilon?", .kind = kMem, .demand = in_heads<2, 1>,
             .sets = Sets::kPlannedOnCuda, .source = "[Zhang19]",
             .what =
                 "Makes m heads, from head `first` on, what was kept times rstd gain, with rstd = "
                 "1 / sqrt(sum / width + epsilon): `width` elements were added up.")
ZPLAN_KERNEL(WholeNormProducts, "whole_norm_products",
             .operands = "dx:rc[b,s,n,d] x:rc[b,s,m,d] gain:rc[m,d] sums:wt[b*s]",
             .attributes = "first?", .kind = kMem, .demand = some_heads<3, 1>,
             .sets = Sets::kPlannedOnCuda, .source = "[Zhang19]",
             .what = "Adds up dx gain x over m heads of a token, from head `first` on.")
ZPLAN_KERNEL(
    WholeNormBackward, "whole_norm_backward",
    .operands =
        "dx:uc[b,s,n,d] x:rc[b,s,m,d] squares:rt[b*s] products:rt[b*s] gain:rc[m,d] "
        "dgain:ag[m,d] scratch:s",
    .attributes = "first width epsilon?", .kind = kMem, .demand = in_heads<8, 1>,
    .sets = Sets::kPlannedOnCuda, .source = "[Zhang19]",
    .what =
        "Is the gradient of whole_norm_forward, in place, with the sums of whole_norm_squares and "
        "whole_norm_products.")
ZPLAN_KERNEL(LatentHeadsForward, "latent_heads_forward",
             .operands = "q:rc[b,s,a,d] kv:rc[b,s,a,e] rope:rc[b,s,r] qkv:wc[b,s,a,w]",
             .attributes = "theta? first?", .kind = kMem, .demand = latent_heads<0, 2>,
             .source = "[DeepSeek24 Eq.9-16]",
             .what =
                 "Puts a query, a key and a value heads side by side, as attention_forward takes "
                 "them. A query has n elements and r that turn by angles of base `theta`, d = n + "
                 "r; kv has n elements of the key and v of the value, e = n + v; the other r of "
                 "every key are rope, turned. w = 2 d + v; with `theta` 0 nothing turns. `first`: "
                 "the position of the first of s tokens.")
ZPLAN_KERNEL(LatentHeadsBackward, "latent_heads_backward",
             .operands = "dqkv:rc[b,s,a,w] dq:wc[b,s,a,d] dkv:wc[b,s,a,e] drope:ac[b,s,r]",
             .attributes = "theta? first?", .kind = kMem, .demand = latent_heads<1, 3>,
             .source = "[DeepSeek24 Eq.9-16]",
             .what =
                 "Is the gradient of latent_heads_forward; drope is the sum over heads, or adds "
                 "it.")
ZPLAN_KERNEL(TakeColumns, "take_columns", .operands = "x:rc[T,h] y:wc[T,n]", .attributes = "first?",
             .kind = kMem, .demand = some_columns<0, 1, 2>, .sets = Sets::kMergedAttention,
             .source = "[derived]", .what = "y = the columns of x from `first` on.")
ZPLAN_KERNEL(AddColumns, "add_columns", .operands = "x:rc[T,n] y:uc[T,h]", .attributes = "first?",
             .kind = kMem, .demand = some_columns<1, 0, 3>, .sets = Sets::kMergedAttention,
             .source = "[derived]", .what = "Adds x to the columns of y from `first` on.")
ZPLAN_KERNEL(
    BlockAttentionForward, "block_attention_forward",
    .operands = "qkv:rc[b,s,g,w] kv:rc[b,s,g,e] out:ut[b,s,a,v] lse:ut[b,a,s] scratch:s",
    .attributes = "earlier?", .kind = kAtt, .demand = block_attention<0, 2, false>,
    .sets = Sets::kMergedAttention, .source = "[Liu23 sec 3]",
    .what =
        "Merges attention to the keys and values of another rank into out and lse, by their "
        "log-sum-exp. Both have two stretches of their sequences, of s / 2 tokens each. kv, g "
        "heads of keys and g of values side by side, is of a rank whose first stretch is before "
        "this one's and its second behind it, where `earlier` is not negative: all queries see "
        "its first stretch. Else it is the other way round: the second half of the queries see "
        "all of it.")
ZPLAN_KERNEL(
    BlockAttentionBackward, "block_attention_backward",
    .operands =
        "dout:rc[b,s,a,v] qkv:rc[b,s,g,w] kv:rc[b,s,g,e] out:rc[b,s,a,v] lse:rt[b,a,s] "
        "dqkv:uc[b,s,g,w] dkv:wc[b,s,g,e] scratch:s",
    .attributes = "earlier?", .kind = kAtt, .demand = block_attention<1, 0, true>,
    .sets = Sets::kMergedAttention, .source = "[Liu23 sec 3]",
    .what =
        "Adds the gradients of the queries to dqkv, whose keys and values stay, and writes those "
        "of kv; out and lse are those of all blocks.")

ZPLAN_KERNEL(RouterForward, "router_forward",
             .operands = "x:rc[T,h] w:rc[h,e] logits:wt[T,e] scratch:s", .kind = kGemm,
             .demand = matmul<0, 1>, .sets = Sets::kExperts, .source = "[Fedus21 Eq.1]",
             .what = "logits = x w, in the type of statistics.")
ZPLAN_KERNEL(
    ChooseExperts, "choose_experts",
    .operands = "logits:rt[T,e] chosen:wi[T,k] weights:wt[T,k] bias:rc[e]?",
    .attributes = "sigmoid? renormalised? scale groups kept_groups", .kind = kMem,
    .demand = streaming<3 + kExp, 0>, .sets = Sets::kExperts, .source = "[Fedus21 Eq.1]",
    .what =
        "Chooses the k experts with the highest scores, bias added to them, of equal ones the "
        "first, of those in the `kept_groups` of `groups` equal groups whose best one, with a bias "
        "whose two best together, have the highest; scores are the softmax of the logits or, with "
        "`sigmoid`, the sigmoid of each. "
        "Weights are the scores without bias, divided by their sum if `renormalised`, times "
        "`scale` / 1e9.")
ZPLAN_KERNEL(
    PlaceRows, "place_rows",
    .operands = "chosen:ri[T,k] rows:wi[T,k] counts:wi[g,e] dropped:ad[1] choices:rd[n,b,x]?",
    .attributes = "sequences capacity? room? place?", .kind = kMem, .demand = streaming<4, 0>,
    .sets = Sets::kExperts, .source = "[Lepikhin20 Algorithm 1]",
    .what =
        "Gives each choice a row: those of one rank of g together, of which each has e experts, "
        "in the order of experts and then of tokens, the first of a rank at a multiple of `room`. "
        "An expert takes up to `capacity` rows of each of the sequences (0: all) in the order of "
        "tokens; those beyond have row -1 and are added to dropped. Fails where a rank's rows "
        "exceed room. With `choices`, of n ranks that have parts of the sequences one after the "
        "other, this one's the `place`-th, those of the ranks before come first.")
ZPLAN_KERNEL(
    SelectRows, "select_rows", .operands = "rows:ri[T,k] own:wi[T,k]",
    .attributes = "ranks room place?", .kind = kMem, .demand = streaming<2, 0>,
    .sets = Sets::kExperts, .source = "[derived]",
    .what =
        "Of the rows that `ranks` ranks gave the choices of their tokens, T in equal parts one "
        "rank after the other, those that the `place`-th of them has: in a part of `room` rows for "
        "each of the ranks, in the order that it has there. Other choices have row -1.")
ZPLAN_KERNEL(DispatchRows, "dispatch_rows",
             .operands = "x:rc[T,h] rows:ri[T,k] counts:ri[g,e] sent:wc[g,r,h]", .kind = kMem,
             .demand = streaming<0, 3>, .sets = Sets::kExperts, .source = "[Lepikhin20 sec 3.2]",
             .what = "Copies each token to the rows of its choices; other rows are 0.")
ZPLAN_KERNEL(
    GroupedForward, "grouped_forward",
    .operands = "x:rc[g,r,k] w:rc[e,k,n] counts:ri[g,e] y:ac[g,r,n] scratch:s",
    .attributes = "rows", .kind = kGemm, .demand = grouped<0, 3, 1>, .sets = Sets::kExperts,
    .layer_product = true, .source = "[derived]",
    .what =
        "y = x w with the matrix of the expert that a row is of: of each of g parts of x the first "
        "counts[g, 0] rows are of the first expert and so on; rows behind are 0. Or adds it: rows "
        "behind stay as they are. `rows` are expected.")
ZPLAN_KERNEL(GroupedInputGradient, "grouped_input_gradient",
             .operands = "dy:rc[g,r,n] w:rc[e,k,n] counts:ri[g,e] dx:ac[g,r,k] scratch:s",
             .attributes = "rows", .kind = kGemm, .demand = grouped<0, 3, 1>,
             .sets = Sets::kExperts, .layer_product = true, .source = "[derived]",
             .what = "dx = dy w^T, or adds it, row by row as grouped_forward.")
ZPLAN_KERNEL(GroupedWeightGradient, "grouped_weight_gradient",
             .operands = "x:rc[g,r,k] dy:rc[g,r,n] counts:ri[g,e] dw:ag[e,k,n] scratch:s",
             .attributes = "rows", .kind = kGemm, .demand = grouped_weight_gradient,
             .sets = Sets::kExperts, .layer_product = true, .source = "[derived]",
             .what = "dw = x^T dy of the rows of each expert, or adds it.")
ZPLAN_KERNEL(CombineRows, "combine_rows",
             .operands = "x:rc[g,r,h] rows:ri[T,k] y:ac[T,h] weights:rt[T,k]?", .kind = kMem,
             .demand = streaming<2, 0>, .sets = Sets::kExperts, .source = "[Lepikhin20 sec 3.2]",
             .what =
                 "y = the sum of the rows of a token's choices, times weights where there are "
                 "some, or adds it.")
ZPLAN_KERNEL(CombineRowsBackward, "combine_rows_backward",
             .operands =
                 "dy:rc[T,h] x:rc[g,r,h] rows:ri[T,k] weights:rt[T,k] counts:ri[g,e] dx:wc[g,r,h] "
                 "dweights:wt[T,k]",
             .kind = kMem, .demand = streaming<3, 1>, .sets = Sets::kExperts, .source = "[derived]",
             .what = "Is the gradient of combine_rows; other rows are 0.")
ZPLAN_KERNEL(ChooseExpertsBackward, "choose_experts_backward",
             .operands = "logits:rt[T,e] chosen:ri[T,k] dweights:rt[T,k] dlogits:wc[T,e]",
             .attributes = "sigmoid? renormalised? scale", .kind = kMem,
             .demand = streaming<6 + kExp, 0>, .sets = Sets::kExperts, .source = "[derived]",
             .what = "Is the gradient of choose_experts; the choice itself has none.")
ZPLAN_KERNEL(
    BalanceExperts, "balance_experts",
    .operands =
        "logits:rt[T,e] chosen:ri[T,k] scalars:rd[11] dlogits:uc[T,e] loss:ud[1] "
        "choices:rd[n,b,e]?",
    .attributes = "sigmoid? sequences coefficient parts place?", .kind = kMem,
    .demand = streaming<8 + kExp, 0>, .sets = Sets::kExperts, .source = "[Fedus21 Eq.4-6]",
    .what =
        "Adds the auxiliary loss of each sequence, `coefficient` / 1e9 E sum f P / `parts`, and "
        "its "
        "gradient times the loss scale: f is the part of a sequence's choices that are of an "
        "expert, P the mean of its scores, of sigmoids divided by their sum. With `choices`, of n "
        "ranks that have parts of the sequences one after the other, this one's the `place`-th, f "
        "is of all of a sequence, and the loss that of the rank's tokens.")
ZPLAN_KERNEL(
    CountChoices, "count_choices", .operands = "chosen:ri[T,k] choices:ad[b,x]",
    .attributes = "ranks place?", .kind = kMem, .demand = streaming<1, 0>, .sets = Sets::kExperts,
    .source = "[derived]",
    .what =
        "Counts the choices of each of x experts by sequence, or adds them: b sequences lie in "
        "equal parts on `ranks` ranks one after the other, of which this is the `place`-th.")
ZPLAN_KERNEL(
    BalanceBias, "balance_bias", .operands = "master:uo[n] loads:rd[1,x]",
    .attributes = "first begin rate", .kind = kMem, .demand = some_columns<3, 1, 3>,
    .sets = Sets::kExperts, .traffic = Traffic::kOptimizer, .source = "[Wang24 Algorithm 1]",
    .what =
        "Adds `rate` / 1e9 to the bias of each expert that has less than the mean load, and takes "
        "it from those that have more. The shard begins with flat element `first`, the biases "
        "with `begin`; those outside are another rank's.")

// [derived] a tanh is an exp and 4
ZPLAN_KERNEL(SoftCapForward, "soft_cap_forward", .operands = "x:rc[*] y:wc[*]=x",
             .attributes = "cap", .kind = kMem, .demand = streaming<6 + kExp, 0>,
             .sets = Sets::kUnfusedAttention, .source = "[Gemma24]",
             .what = "y = cap tanh(x / cap).")
ZPLAN_KERNEL(SoftCapBackward, "soft_cap_backward", .operands = "x:rc[*] dy:uc[*]",
             .attributes = "cap", .kind = kMem, .demand = streaming<9 + kExp, 0>,
             .sets = Sets::kUnfusedAttention, .source = "[Gemma24]",
             .what = "dy becomes the gradient of x, dy (1 - tanh(x / cap)^2).")
// [derived] the kernel without sinks stays as it is: its result and log-sum-exp are brought to the
// greater sum, of which its backward computes the probabilities again
ZPLAN_KERNEL(SinksForward, "sinks_forward", .operands = "out:uc[b,s,a,v] lse:ut[b,a,s] sinks:rc[a]",
             .kind = kMem, .demand = streaming<1, 0>, .sets = Sets::kFusedAttention,
             .source = "[Xiao24]",
             .what =
                 "Gives every row of scores one more, of no value, which is its head's: lse gains "
                 "it and out shrinks by as much.")
ZPLAN_KERNEL(SinksBackward, "sinks_backward",
             .operands =
                 "dout:rc[b,s,a,v] out:rc[b,s,a,v] lse:rt[b,a,s] sinks:rc[a] dsinks:ag[a] "
                 "scratch:s",
             .kind = kMem, .demand = streaming<2, 0>, .sets = Sets::kFusedAttention,
             .source = "[Xiao24]",
             .what = "dsinks = - sums of exp(sink - lse) dout out, or adds them.")

// [derived] biases count no flop, as those of linear_forward
ZPLAN_KERNEL(RouterLinearForward, "router_linear_forward",
             .operands = "x:rc[T,h] w:rc[h,e] bias:rc[e] logits:wt[T,e] scratch:s", .kind = kGemm,
             .demand = matmul<0, 1>, .sets = Sets::kExperts, .source = "[derived]",
             .what = "logits = x w + bias, in the type of statistics.")
ZPLAN_KERNEL(
    GroupedLinearForward, "grouped_linear_forward",
    .operands = "x:rc[g,r,k] w:rc[e,k,n] counts:ri[g,e] bias:rc[e,m] y:wc[g,r,n] scratch:s",
    .attributes = "rows first?", .kind = kGemm, .demand = grouped<0, 4, 1>, .sets = Sets::kExperts,
    .layer_product = true, .source = "[derived]",
    .what =
        "y = x w as grouped_forward, and to m columns of y from `first` on the bias of the expert "
        "that a row is of: of what tensor parallel ranks add up each has its columns of it.")
ZPLAN_KERNEL(
    GroupedLinearWeightGradient, "grouped_linear_weight_gradient",
    .operands = "x:rc[g,r,k] dy:rc[g,r,n] counts:ri[g,e] dw:ag[e,k,n] dbias:ag[e,m] scratch:s",
    .attributes = "rows first?", .kind = kGemm, .demand = grouped_weight_gradient,
    .sets = Sets::kExperts, .layer_product = true, .source = "[derived]",
    .what =
        "dw = x^T dy as grouped_weight_gradient, and dbias = the sums of m columns of dy from "
        "`first` on over the rows of each expert, or adds them.")

// [derived] the bias of a stack is made once for a micro-batch, of each distance, and its gradient
// taken back to the table once: layers only add to scores, and to the gradient
ZPLAN_KERNEL(RelativePositions, "relative_positions", .operands = "table:rc[n,a] bias:wt[a,r]",
             .attributes = "distance both_ways?", .kind = kMem, .demand = streaming<1, 1>,
             .sets = Sets::kPlannedOnCuda, .source = "[Raffel20 sec 2.1]",
             .what =
                 "bias = what the table has for the bucket of each distance, of keys before the "
                 "query and behind it, r = 2 s - 1 of them. From `distance` on all are in the last "
                 "bucket; `both_ways` 1 half of the buckets are of keys behind the query.")
ZPLAN_KERNEL(RelativePositionsGradient, "relative_positions_gradient",
             .operands = "dbias:rt[a,r] dtable:ag[n,a]", .attributes = "distance both_ways?",
             .kind = kMem, .demand = streaming<1, 0>, .sets = Sets::kPlannedOnCuda,
             .source = "[Raffel20 sec 2.1]",
             .what = "dtable = sums of dbias over the distances of each bucket, or adds them.")
ZPLAN_KERNEL(RelativeScores, "relative_scores", .operands = "scores:uc[b,a,s,s] bias:rt[a,r]",
             .kind = kMem, .demand = streaming<1, 0>, .sets = Sets::kPlannedOnCuda,
             .traffic = Traffic::kSoftmax, .source = "[Raffel20 sec 2.1]",
             .what = "Adds to each score what the bias has for the distance of key and query.")
ZPLAN_KERNEL(RelativeScoresGradient, "relative_scores_gradient",
             .operands = "dscores:rc[b,a,s,s] dbias:ut[a,r]", .kind = kMem,
             .demand = streaming<1, 0>, .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kSoftmax,
             .source = "[derived]",
             .what = "Adds to dbias the gradients of all scores at the same distance.")
ZPLAN_KERNEL(
    BiasedAttentionForward, "biased_attention_forward",
    .operands = "qkv:rc[b,s,g,w] bias:rt[a,r] out:wc[b,s,a,v] lse:wt[b,a,s] scratch:s",
    .attributes = "window? cap? divisor? slopes? first_head? both_ways? heads_per_tile?",
    .kind = kAtt, .demand = attention<0, 2, false>, .sets = Sets::kPlannedOnCuda,
    .source = "[Raffel20 sec 2.1]",
    .what = "Is attention_forward with the bias added to scores, as relative_scores adds it.")
ZPLAN_KERNEL(BiasedAttentionBackward, "biased_attention_backward",
             .operands =
                 "dout:rc[b,s,a,v] qkv:rc[b,s,g,w] bias:rt[a,r] out:rc[b,s,a,v] lse:rt[b,a,s] "
                 "dqkv:wc[b,s,g,w] dbias:ut[a,r] scratch:s",
             .attributes = "window? cap? divisor? slopes? first_head? both_ways? heads_per_tile?",
             .kind = kAtt, .demand = attention<1, 0, true>, .sets = Sets::kPlannedOnCuda,
             .source = "[derived]",
             .what = "Is the gradient of biased_attention_forward; dbias gains that of the bias.")

ZPLAN_KERNEL(SegmentForward, "segment_forward", .operands = "x:uc[b,s,h] rows:rc[n,h]",
             .attributes = "length first? begin?", .kind = kMem, .demand = streaming<1, 0>,
             .sets = Sets::kPlannedOnCuda, .source = "[Devlin19 sec 3.2]",
             .what =
                 "Adds to each token the row of its segment, of which each has `length` tokens; x "
                 "begins with token `begin`. Only the piece of the vocabulary whose `first` is 0 "
                 "adds it.")
ZPLAN_KERNEL(SegmentBackward, "segment_backward", .operands = "dx:rc[b,s,h] drows:ag[n,h]",
             .attributes = "length first? begin?", .kind = kMem, .demand = streaming<1, 0>,
             .sets = Sets::kPlannedOnCuda, .source = "[derived]",
             .what = "drows = sums of dx over the tokens of each segment, or adds them.")
ZPLAN_KERNEL(AddBias, "add_bias", .operands = "x:uc[T,n] bias:rc[n]", .kind = kMem,
             .demand = streaming<1, 0>, .sets = Sets::kPlannedOnCuda, .source = "[Devlin19]",
             .what = "x = x + bias, by row.")

ZPLAN_KERNEL(GateRows, "gate_rows", .operands = "gate:rt[T,1] y:uc[T,f]", .kind = kMem,
             .demand = streaming<1, 1>, .sets = Sets::kExperts,
             .source = "[Transformers models/qwen2_moe/modeling_qwen2_moe.py]",
             .what = "y = y sigmoid(gate), by row.")
ZPLAN_KERNEL(GateRowsBackward, "gate_rows_backward",
             .operands = "gate:rt[T,1] y:rc[T,f] dy:uc[T,f] dgate:wc[T,1]", .kind = kMem,
             .demand = streaming<3, 1>, .sets = Sets::kExperts, .source = "[derived]",
             .what =
                 "Is the gradient of gate_rows, of whose y it reads what it gave: with g the "
                 "sigmoid of the gate, dgate = (1 - g) times the sum of y dy, and dy = g dy.")
ZPLAN_KERNEL(GateForward, "gate_forward", .operands = "x:rc[*] gate:rc[*] y:wc[*]", .kind = kMem,
             .demand = streaming<4 + kExp, 0>, .sets = Sets::kPlannedOnCuda, .source = "[Qiu25]",
             .what = "y = x sigmoid(gate).")
ZPLAN_KERNEL(GateBackward, "gate_backward",
             .operands = "dy:rc[*] x:rc[*] gate:rc[*] dx:wc[*] dgate:wc[*]", .kind = kMem,
             .demand = streaming<8 + kExp, 0>, .sets = Sets::kPlannedOnCuda, .source = "[Qiu25]",
             .what = "Is the gradient of gate_forward.")
ZPLAN_KERNEL(
    ConvolutionForward, "convolution_forward",
    .operands = "x:rc[b,s,w] weight:rc[k,c] y:wc[b,s,c] bias:rc[c]?", .attributes = "first?",
    .kind = kMem, .demand = convolution<2, 1, 2>, .sets = Sets::kPlannedOnCuda,
    .source = "[Dao24 sec 7]",
    .what =
        "y = silu(bias + sum of weight times the last k tokens of each of c channels), which are "
        "the columns of x from `first` on; there is nothing before the first token.")
ZPLAN_KERNEL(
    ConvolutionBackward, "convolution_backward",
    .operands =
        "dy:rc[b,s,c] x:rc[b,s,w] weight:rc[k,c] dx:uc[b,s,w] dweight:ag[k,c] bias:rc[c]? "
        "dbias:ag[c]?",
    .attributes = "first?", .kind = kMem, .demand = convolution<0, 2, 3>,
    .sets = Sets::kPlannedOnCuda, .source = "[Dao24 sec 7]",
    .what =
        "Is the gradient of convolution_forward, which it computes again; that of x overwrites "
        "its columns of dx.")
ZPLAN_KERNEL(
    MambaScanForward, "mamba_scan_forward",
    .operands = "x:rc[b,s,c] in:rc[b,s,w] dt_bias:rc[n] a_log:rc[n] d:rc[n] y:wc[b,s,v] scratch:s",
    .attributes = "groups state chunk", .kind = kMem, .demand = mamba_scan<0, 2, 5, false>,
    .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kCompulsory, .source = "[Dao24 sec 6]",
    .what =
        "x has the input u of n heads of v / n elements and, of each of `groups`, B and C of "
        "`state` elements; the last n columns of in are dt. With dt = softplus(dt + dt_bias) a "
        "state becomes exp(-exp(a_log) dt) of it plus dt u B^T, and y is it times C, plus d u. "
        "`chunk` tokens at a time are products.")
ZPLAN_KERNEL(
    MambaScanBackward, "mamba_scan_backward",
    .operands =
        "dy:rc[b,s,v] x:rc[b,s,c] in:rc[b,s,w] dt_bias:rc[n] a_log:rc[n] d:rc[n] dx:wc[b,s,c] "
        "din:uc[b,s,w] ddt_bias:ag[n] da_log:ag[n] dd:ag[n] scratch:s",
    .attributes = "groups state chunk", .kind = kMem, .demand = mamba_scan<1, 3, 0, true>,
    .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kCompulsory, .source = "[Dao24 sec 6]",
    .what =
        "Is the gradient of mamba_scan_forward, whose states it computes again; that of dt "
        "overwrites the last n columns of din.")
ZPLAN_KERNEL(
    DeltaScanForward, "delta_scan_forward",
    .operands = "x:rc[b,s,c] in:rc[b,s,w] dt_bias:rc[n] a_log:rc[n] y:wc[b,s,v] scratch:s",
    .attributes = "key_heads key_size chunk", .kind = kMem, .demand = delta_scan<0, 2, 4, false>,
    .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kCompulsory, .source = "[Yang24b sec 3]",
    .what =
        "x has queries and keys of `key_heads` heads of `key_size` elements, each divided by its "
        "length, and values of n heads; the last 2 n columns of in are b and a. A state S becomes "
        "exp(-exp(a_log) softplus(a + dt_bias)) S, then S plus sigmoid(b) k (v - S^T k)^T, and y "
        "is S^T q, divided by the root of key_size. `chunk` tokens at a time are products.")
ZPLAN_KERNEL(
    DeltaScanBackward, "delta_scan_backward",
    .operands =
        "dy:rc[b,s,v] x:rc[b,s,c] in:rc[b,s,w] dt_bias:rc[n] a_log:rc[n] dx:wc[b,s,c] "
        "din:uc[b,s,w] ddt_bias:ag[n] da_log:ag[n] scratch:s",
    .attributes = "key_heads key_size chunk", .kind = kMem, .demand = delta_scan<1, 3, 0, true>,
    .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kCompulsory, .source = "[Yang24b sec 3]",
    .what =
        "Is the gradient of delta_scan_forward, whose states it computes again; those of b and a "
        "overwrite the last 2 n columns of din.")
ZPLAN_KERNEL(
    GatedNormForward, "gated_norm_forward",
    .operands = "x:rc[b,s,v] in:rc[b,s,w] gain:rc[e] y:wc[b,s,v] rstd:wt[b,s,m]",
    .attributes = "gate_last? epsilon? sigmoid?", .kind = kMem, .demand = gated_norm<3, 3>,
    .sets = Sets::kPlannedOnCuda, .source = "[Dao24 sec 7]",
    .what =
        "The first v columns of in are a gate z. y = norm(x silu(z)) gain or, with `gate_last` 1, "
        "norm(x) gain silu(z), each an RMSNorm of m equal parts of a row; gain has v elements, or "
        "those of one part. With `sigmoid` 1 the sigmoid of z stands for its SiLU.")
ZPLAN_KERNEL(
    GatedNormBackward, "gated_norm_backward",
    .operands =
        "dy:rc[b,s,v] x:rc[b,s,v] in:rc[b,s,w] gain:rc[e] rstd:rt[b,s,m] dx:wc[b,s,v] "
        "din:wc[b,s,w] dgain:ag[e]",
    .attributes = "gate_last? sigmoid?", .kind = kMem, .demand = gated_norm<0, 5>,
    .sets = Sets::kPlannedOnCuda, .source = "[Dao24 sec 7]",
    .what =
        "Is the gradient of gated_norm_forward; that of z is in the first v columns of din, the "
        "others become 0.")

ZPLAN_KERNEL(
    ChooseKeys, "choose_keys",
    .operands = "q:rc[b,s,n,e] k:rc[b,s,e] weights:rc[b,s,n] chosen:wi[b,s,i] scratch:s",
    .kind = kAtt, .demand = choose_keys, .sets = Sets::kPlannedOnCuda,
    .scratch = choose_keys_scratch, .source = "[DeepSeek25b Eq.1]",
    .what =
        "A query and a key up to its own score sum weights ReLU(q k) / sqrt(n e). Of each query "
        "the i keys that score highest, of equal ones the earlier ones, in their order; -1 where "
        "there are no more.")
ZPLAN_KERNEL(
    ChooseKeysBackward, "choose_keys_backward",
    .operands =
        "given:rt[b,s,i] chosen:ri[b,s,i] q:rc[b,s,n,e] k:rc[b,s,e] weights:rc[b,s,n] "
        "scalars:rd[11] dq:wc[b,s,n,e] dk:wc[b,s,e] dweights:wc[b,s,n] scratch:s",
    .attributes = "heads ranks global_tokens", .kind = kAtt, .demand = choose_keys_backward,
    .sets = Sets::kPlannedOnCuda, .source = "[DeepSeek25b Eq.4]",
    .what =
        "Is the gradient, times the loss scale, of the mean over global_tokens of KL(p | softmax "
        "of the scores), over the keys that were chosen; p is what all `heads` give a key, divided "
        "by their number. Of that sum a rank has its heads' part in `given`, and gives that part "
        "of the gradient, one of `ranks`.")
ZPLAN_KERNEL(ChosenAttentionForward, "chosen_attention_forward",
             .operands = "qkv:rc[b,s,g,w] chosen:ri[b,s,i] out:wc[b,s,a,v] lse:wt[b,a,s] scratch:s",
             .kind = kAtt, .demand = chosen_attention<0, 2, false>, .sets = Sets::kPlannedOnCuda,
             .source = "[DeepSeek25b Eq.2]",
             .what =
                 "Is attention_forward of the keys that are chosen for each query. The products "
                 "are those of all keys up to its own, as with a mask.")
ZPLAN_KERNEL(ChosenAttentionBackward, "chosen_attention_backward",
             .operands =
                 "dout:rc[b,s,a,v] qkv:rc[b,s,g,w] chosen:ri[b,s,i] out:rc[b,s,a,v] lse:rt[b,a,s] "
                 "dqkv:wc[b,s,g,w] scratch:s",
             .kind = kAtt, .demand = chosen_attention<1, 0, true>, .sets = Sets::kPlannedOnCuda,
             .source = "[derived]", .what = "Is the gradient of chosen_attention_forward.")
ZPLAN_KERNEL(
    ChosenShares, "chosen_shares",
    .operands = "qkv:rc[b,s,g,w] chosen:ri[b,s,i] lse:rt[b,a,s] given:at[b,s,i]",
    .attributes = "value_size", .kind = kAtt, .demand = chosen_shares, .sets = Sets::kPlannedOnCuda,
    .source = "[DeepSeek25b sec 2.1]",
    .what =
        "given = sum over heads of the probabilities of attention of the chosen keys, or adds "
        "them; 0 where there is none. Heads of values have `value_size` elements.")

ZPLAN_KERNEL(
    KimiScanForward, "kimi_scan_forward",
    .operands =
        "x:rc[b,s,c] in:rc[b,s,w] decay:rc[b,s,k] dt_bias:rc[k] a_log:rc[n] y:wc[b,s,v] scratch:s",
    .attributes = "chunk", .kind = kMem, .demand = kimi_scan<0, 2, 4, 5, false>,
    .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kCompulsory, .source = "[KimiTeam25 sec 4]",
    .what =
        "x has queries and keys of n heads of k / n elements, each divided by its length, and "
        "values; the last n columns of in are b. Row i of a state S becomes exp(-exp(a_log) "
        "softplus(decay + dt_bias)) of it, by the decay of channel i, then S becomes S plus "
        "sigmoid(b) k (v - S^T k)^T, and y is S^T q, divided by the root of k / n. `chunk` tokens "
        "at a time are products.")
ZPLAN_KERNEL(
    KimiScanBackward, "kimi_scan_backward",
    .operands =
        "dy:rc[b,s,v] x:rc[b,s,c] in:rc[b,s,w] decay:rc[b,s,k] dt_bias:rc[k] a_log:rc[n] "
        "dx:wc[b,s,c] din:wc[b,s,w] ddecay:wc[b,s,k] ddt_bias:ag[k] da_log:ag[n] scratch:s",
    .attributes = "chunk", .kind = kMem, .demand = kimi_scan<1, 3, 5, 0, true>,
    .sets = Sets::kPlannedOnCuda, .traffic = Traffic::kCompulsory, .source = "[KimiTeam25 sec 4]",
    .what =
        "Is the gradient of kimi_scan_forward, whose states it computes again; that of b is in "
        "the last n columns of din, the others become 0.")

ZPLAN_KERNEL(
    SelectiveScanForward, "selective_scan_forward",
    .operands = "x:rc[b,s,c] step:rc[b,s,c] vectors:rc[p,b,s,n] a_log:rc[n,c] d:rc[c] y:wc[b,s,c]",
    .kind = kMem, .demand = selective_scan<0, 3, false>, .sets = Sets::kPlannedOnCuda,
    .traffic = Traffic::kCompulsory, .source = "[Gu23 sec 3]",
    .what =
        "Each of c channels has a state of n numbers; `vectors` are B and C of all tokens. With dt "
        "= softplus(step) a state becomes exp(-exp(a_log) dt) of it plus dt x B, and y is its "
        "product with C, plus d x.")
ZPLAN_KERNEL(SelectiveScanBackward, "selective_scan_backward",
             .operands =
                 "dy:rc[b,s,c] x:rc[b,s,c] step:rc[b,s,c] vectors:rc[p,b,s,n] a_log:rc[n,c] "
                 "d:rc[c] dx:wc[b,s,c] dstep:wc[b,s,c] dvectors:wc[p,b,s,n] da_log:ag[n,c] "
                 "dd:ag[c] scratch:s",
             .kind = kMem, .demand = selective_scan<1, 4, true>, .sets = Sets::kPlannedOnCuda,
             .traffic = Traffic::kCompulsory, .source = "[Gu23 sec 3]",
             .what = "Is the gradient of selective_scan_forward, whose states it computes again.")
ZPLAN_KERNEL(SiluGateForward, "silu_gate_forward",
             .operands = "x:rc[b,s,v] in:rc[b,s,w] y:wc[b,s,v]", .kind = kMem,
             .demand = gated_norm<2, 3>, .sets = Sets::kPlannedOnCuda, .source = "[Gu23 sec 3]",
             .what = "The first v columns of in are a gate z. y = x silu(z).")
ZPLAN_KERNEL(
    SiluGateBackward, "silu_gate_backward",
    .operands = "dy:rc[b,s,v] x:rc[b,s,v] in:rc[b,s,w] dx:wc[b,s,v] din:wc[b,s,w]", .kind = kMem,
    .demand = gated_norm<0, 5>, .sets = Sets::kPlannedOnCuda, .source = "[Gu23 sec 3]",
    .what =
        "Is the gradient of silu_gate_forward; that of z is in the first v columns of din, the "
        "others become 0.")

ZPLAN_KERNEL(ScaleColumns, "scale_columns", .operands = "x:uc[T,w]",
             .attributes = "first columns factor", .kind = kMem, .demand = scaled_columns,
             .sets = Sets::kPlannedOnCuda, .source = "[Zuo25]",
             .what = "Multiplies so many columns from `first` on by a factor in units of 1e-9.")

ZPLAN_KERNEL(
    ShortConvolutionForward, "short_convolution_forward",
    .operands = "in:rc[b,s,w] weight:rc[k,c] y:wc[b,s,c]", .kind = kMem,
    .demand = short_convolution<0, 1, 4>, .sets = Sets::kPlannedOnCuda, .source = "[Liquid25]",
    .what =
        "The columns of in are gates B and C and x, c each. y = C times the sum of weight times "
        "B x of the last k tokens of each channel; there is nothing before the first token.")
ZPLAN_KERNEL(
    ShortConvolutionBackward, "short_convolution_backward",
    .operands = "dy:rc[b,s,c] in:rc[b,s,w] weight:rc[k,c] din:wc[b,s,w] dweight:ag[k,c]",
    .kind = kMem, .demand = short_convolution<1, 2, 7>, .sets = Sets::kPlannedOnCuda,
    .source = "[Liquid25]",
    .what = "Is the gradient of short_convolution_forward, whose products it computes again.")

// These are of images in front of a text model (models/vision_shape.h).
ZPLAN_KERNEL(
    LoadPixels, "load_pixels", .operands = "pixels:wt[T,c]",
    .attributes = "sequences global_batch first rows", .kind = kHost, .demand = host_work,
    .sets = Sets::kPlannedOnCuda, .source = "[derived]",
    .what =
        "Draws the patches of a micro-batch of `sequences` of all replicas, `rows` of each "
        "sequence, from a normal distribution by the run's seed, the sample and the place in its "
        "patches; `first` is the rank's first sequence.")
ZPLAN_KERNEL(PutRows, "put_rows", .operands = "y:rc[R,h] x:uc[T,h]",
             .attributes = "sequence rows first?", .kind = kMem, .demand = rows_of_images<0>,
             .sets = Sets::kPlannedOnCuda, .source = "[Liu23b sec 4.1]",
             .what =
                 "The first `rows` tokens of each sequence of `sequence` tokens become those of y. "
                 "x begins with token `first` of all sequences.")
ZPLAN_KERNEL(TakeRows, "take_rows", .operands = "dx:uc[T,h] dy:wc[R,h]",
             .attributes = "sequence rows first?", .kind = kMem, .demand = rows_of_images<1>,
             .sets = Sets::kPlannedOnCuda, .source = "[derived]",
             .what =
                 "Is the gradient of put_rows: dy has the rows that x took from y, 0 for those of "
                 "tokens that dx does not have, and dx becomes 0 there.")
ZPLAN_KERNEL(MeanRows, "mean_rows", .operands = "x:rc[T,h] y:wc[R,h]", .kind = kMem,
             .demand = streaming<1, 0>, .sets = Sets::kPlannedOnCuda,
             .source = "[Transformers models/gemma3/modeling_gemma3.py]",
             .what = "Each row of y is the mean of T / R rows of x that come one after the other.")
ZPLAN_KERNEL(MeanRowsGradient, "mean_rows_gradient", .operands = "dy:rc[R,h] dx:wc[T,h]",
             .kind = kMem, .demand = streaming<1, 1>, .sets = Sets::kPlannedOnCuda,
             .source = "[derived]", .what = "Is the gradient of mean_rows.")

#undef ZPLAN_KERNEL
