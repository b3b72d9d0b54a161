"""The statements of the five documents, place by place, with the claims that cover them or the reason for none.

The documents are not in the repository, so their statements are paraphrased here. `part.function` names a claim by the
function that is its evidence. A statement without a claim has the reason instead. The report shows these tables, and
links each claim to its rows and equations.
"""

import re
from typing import NamedTuple

from derivations.claims import Claim


class Row(NamedTuple):
    """A statement: its place in a document, its text, and the claims that cover it, or the reason for none."""

    document: str
    passage: str
    says: str
    claims: tuple[str, ...]
    why: str

    @property
    def anchor(self) -> str:
        """Its anchor in the report."""
        same = [row for row in ROWS if row.document == self.document]
        return f"{self.document}-{same.index(self) + 1}"

    def covers(self, claim: Claim) -> bool:
        return f"{claim.part}.{claim.run.__name__}" in self.claims


TITLES = {
    "000": "A Brief Introduction to (some of) the Math Behind the Transformer",
    "001": "Mathematical Formulation of Transformer Attention",
    "002": "Mathematical intuition for transformers",
    "003": "How do transformers work? (in abstract index notation)",
    "004": "Transformer Explained in One Single Page",
}

HISTORY = "history or praise"
TRAINING = "about the results of training: nothing is derived"
HEADS = f"{TRAINING}; examples/10_heads.py has a task on which it shows"
STREAM = f"{TRAINING}; examples/11_residual_stream.py trains without"
LONGER = f"{TRAINING}; examples/12_positions.py measures it"
MEANING = "the meaning of a quantity: nothing to compute"
SLIP = "a slip of a name, on which no computation depends"

# document: place | the statement, and below it the claims, or "- " and the reason for none
TABLES = {
    "000": """
introduction | Transformers came from translation and outperform older models in most areas
    - {HISTORY}
Dot-product self-attention | queries, keys, values: to look for, to match, to pass on
    - {MEANING}
Dot-product self-attention | Q = X W^(q), K = X W^(k), V = X W^(v), and their shapes
    forward.encoder_decoder forward.entry_by_entry
Dot-product self-attention | the form with biases
    errata.bias_form forward.encoder_decoder
Dot-product self-attention | Q K^T has the entry (i, j) for how much i attends to j
    forward.entry_by_entry
Dot-product self-attention | products grow with d_k, hence the division by sqrt(d_k)
    theorems.variance_of_scores
Dot-product self-attention | without it gradients are too sharp
    errata.saturation theorems.saturation
Dot-product self-attention | softmax: rows sum to 1, larger scores have larger weights
    errata.softmax_index theorems.convex_combination theorems.larger_score
Dot-product self-attention | a weighted sum of the values
    errata.softmax_missing theorems.convex_combination
Dot-product self-attention | Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V
    forward.entry_by_entry forward.encoder_decoder
Dot-product self-attention | long-range dependencies are captured: a distant position counts as a near one does
    engine.masked_models theorems.equivariance
Algorithm 1 | scaled dot-product self-attention
    forward.entry_by_entry
Multi-head self-attention | one head averages over effects that several keep apart
    - {HEADS}
Multi-head self-attention | Q_h, K_h, V_h, H_h; Concat(H_1, ..., H_H) W^(o)
    forward.encoder_decoder eq17.concatenation
Algorithm 2 | its input, loop and output
    errata.algorithm_2_shapes eq19.multi_head
Cross-attention | queries of the decoder, keys and values of the encoder
    forward.encoder_decoder sublayers.cross_attention_gradients sublayers.all_stacks sublayers.engine_sublayers
    engine.translation
Residual connections | Z = Y + X
    theorems.residual_stream sublayers.add_and_norm_gradients
Residual connections | they prevent a loss of information
    theorems.residual_stream
Residual connections | they let depth help
    - {STREAM}
Layer normalization | mu, sigma^2 and z
    errata.layer_norm_sums theorems.norm_statistics forward.encoder_decoder
Layer normalization | y = gamma z + delta
    errata.layer_norm_sums sublayers.add_and_norm_gradients sublayers.engine_sublayers
Layer normalization | the mean and the variance are fixed, as in a z-standardization
    theorems.norm_statistics theorems.norm_and_scale
Layer normalization | it reduces the covariate shift problem
    - {TRAINING}
Layer normalization | Z = LayerNorm(Y + X)
    sublayers.add_and_norm_gradients forward.encoder_decoder
Feed forward neural network | max(0, X W_1 + b_1) W_2 + b_2
    forward.encoder_decoder eq17.feed_forward_gradients
Feed forward neural network | it is position-wise
    theorems.position_by_position
Feed forward neural network | X~ = LayerNorm(MLP(Z) + Z); MLP stands for FFNN
    - {SLIP}
Algorithm 3 | the transformer layer
    errata.algorithm_3 forward.encoder_decoder engine.translation real_size.of_004 eq19.layer_of_000
Linear layer | Y~ = X~ W + b
    forward.encoder_decoder sublayers.ends
Softmax layer | P(y_i = v) is a softmax over the vocabulary, its probabilities sum to 1
    forward.encoder_decoder theorems.shift_invariance
Softmax layer | higher scores have higher probabilities
    theorems.larger_score
Positional encoding | the weights are shared by all tokens
    theorems.position_by_position
Positional encoding | a permutation of the rows of X permutes the output
    theorems.equivariance theorems.engine_equivariance
Positional encoding | so "not good" and "not bad" are alike without positions
    theorems.equivariance
Positional encoding | x~_n = x_n + r_n
    forward.encoder_decoder
Positional encoding | it should be unique, bounded, consistent in steps
    theorems.encoding_is_unique theorems.encoding_is_bounded theorems.shift_is_rotation
Positional encoding | it should generalize to longer sequences
    - {LONGER}
Positional encoding | r_ni by sine and cosine
    errata.encoding_origin errata.encoding_letters forward.encoder_decoder
Concluding remarks | today's models vary the components
    - {HISTORY}
""",
    "001": """
Introduction | Q = X W^Q, K = X W^K, V = X W^V, and their shapes
    forward.entry_by_entry
Introduction | a query asks how much attention to pay to each key
    theorems.larger_score theorems.alike
Scaled Dot-Product Attention | S_ij = q_i . k_j
    forward.entry_by_entry
Step 1 | scores are divided by sqrt(d_k), so that softmax does not saturate
    theorems.variance_of_scores theorems.saturation
Step 2 | softmax row by row: weights in [0, 1] that sum to 1
    theorems.convex_combination theorems.larger_score
Step 2 | larger products have larger weights
    theorems.larger_score
Step 2 | smooth and differentiable, unlike a hard argmax
    theorems.larger_score theorems.hard_argmax
Step 3 | o_i = sum_j A_ij v_j
    forward.entry_by_entry theorems.convex_combination
Step 3 | the formula of Vaswani et al.
    forward.entry_by_entry
Calculating Attention Weights | alpha_ij and o_i, entry by entry
    forward.entry_by_entry
Calculating Attention Weights | each output is a convex combination of the rows of V
    theorems.convex_combination
Softmax and Scaling Insights | softmax keeps weights positive, sums them to 1, emphasizes the largest
    theorems.convex_combination theorems.larger_score
Softmax and Scaling Insights | a differentiable alternative to the hard max
    theorems.hard_argmax
Softmax and Scaling Insights | each query attends by itself
    theorems.larger_score
Softmax and Scaling Insights | components of variance 1 give q . k the variance d_k
    errata.variance_needs_means theorems.variance_of_scores
Softmax and Scaling Insights | large products saturate softmax, its gradients become small
    theorems.saturation
Softmax and Scaling Insights | divided by sqrt(d_k) the variance is 1
    theorems.variance_of_scores
Multi-Head Attention | head_i = Attention(X W_i^Q, X W_i^K, X W_i^V)
    forward.encoder_decoder eq17.attention_gradients
Multi-Head Attention | H = [head_1; ...; head_h]
    errata.concatenation eq17.concatenation
Multi-Head Attention | MultiHead(X) = H W^O, and its shape
    forward.encoder_decoder eq19.multi_head
Multi-Head Attention | heads attend to different subspaces
    - {TRAINING}
Multi-Head Attention | the output has the shape of a single head's
    errata.shape_of_a_head
References | quotations from the literature
    - {HISTORY}
""",
    "002": """
High-level overview | embedding, residual blocks, unembedding; heads work in parallel
    program.random_tuples
High-level overview | each layer reads from the stream and adds to it
    theorems.residual_stream
High-level overview | so the original information is preserved
    theorems.residual_stream
High-level overview | LayerNorm before each layer: mean 0 and variance 1
    theorems.norm_statistics eq17.layers_too program.random_tuples
High-level overview | x + Attention(LayerNorm(x)), then x + MLP(LayerNorm(x))
    program.random_tuples eq17.other_readings engine.pre_norm
High-level overview | a linear projection multiplies by a weight, with an optional bias
    forward.encoder_decoder
High-level overview | the MLP: two linear maps, an activation between them
    theorems.position_by_position eq17.feed_forward_gradients
Self-attention | y_i = sum_j w_ij x_j, w_ij the softmax of x_i . x_j
    forward.simple_attention
Self-attention | the weights sum to 1 over all j
    theorems.convex_combination
Self-attention | a dot product measures how alike two vectors are
    theorems.alike
Self-attention | a higher product means more relevance
    theorems.larger_score
Self-attention | relatedness is learned
    - {TRAINING}
Self-attention | it sees a set: permutation equivariant
    theorems.equivariance theorems.engine_equivariance
Self-attention | every vector is used as query, key and value
    eq17.attention_gradients
Self-attention | many queries at once, in a matrix
    forward.entry_by_entry
Scaled dot-product | large inputs make softmax sensitive; negative ones kill its gradient
    errata.negative_scores theorems.saturation theorems.shift_invariance
Scaled dot-product | a vector of k numbers c has the length c sqrt(k), hence the scale
    errata.length_argument theorems.variance_of_scores
Multi-head attention | one attention combines all information, heads keep it apart
    - {HEADS}
Multi-head attention | 256 dimensions and 4 heads give 64 each
    errata.head_width
Multi-head attention | heads side by side have all dimensions again; then a projection
    eq17.concatenation eq17.projection_gradients
Positional Encoding | self-attention is permutation invariant
    errata.equivariant
Positional Encoding | the encoding is as wide as the embedding, added, not learned
    forward.encoder_decoder
Positional Encoding | sine and cosine of different frequencies
    forward.encoder_decoder theorems.shift_is_rotation
Positional Encoding | PE at pos + k is a linear function of PE at pos
    theorems.shift_is_rotation
Positional Encoding | it lets the model extrapolate to longer sequences
    - {LONGER}
""",
    "003": """
(1) | tokens and positions are embedded
    eq17.definitions program.real_size eq17.embedding_gradients
after (1) | Z is normalised
    errata.norm_eps errata.three_readings theorems.norm_statistics eq17.norm_gradients
(2) | the weights of queries, keys, values; K = D / H
    eq17.definitions eq19.eq_19_condition program.real_size
after (2) | D = 512 in 4 heads gives 64
    errata.head_width
before (3) | the similarity matrix is D x D
    errata.similarity_shape
(3) | the scores
    errata.query_and_key program.real_size theorems.queries_and_keys
(4) | the mask is added to the scores
    engine.mask engine.masked_models program.real_size
(5) | the mask: 0 at and below the diagonal, -infinity above
    errata.mask_index engine.mask engine.masked_models theorems.causality theorems.engine_causality
(6) | softmax, and the weighted values
    errata.weighted_values theorems.convex_combination theorems.shift_invariance eq17.softmax_gradients
(7) | heads are concatenated
    eq17.concatenation program.real_size
(8) | the output projection
    eq17.projection_gradients theorems.values_and_output program.real_size
(9) | attention perturbs the embedding: it is added
    errata.three_readings theorems.residual_stream eq17.other_readings
after (9) | normalised once again
    eq17.norm_gradients theorems.norm_and_scale theorems.before_a_norm
(10) | the feed-forward, the same b at every position
    theorems.position_by_position eq17.feed_forward_gradients theorems.relu_units
after (10) | several such layers
    eq17.layers eq17.layers_too
(11) | logits, a probability distribution
    errata.logits_are_not_probabilities program.real_size
after (11) | a token is selected by it: the one of the largest logit is the likeliest
    theorems.larger_score theorems.shift_invariance
after (11) | or drawn
    - drawing is tested (tests of models), not derived
(12) | the loss of a position
    theorems.loss_is_cross_entropy program.real_size
(13) | the cross-entropy
    theorems.loss_is_cross_entropy
(14) | the predicted distribution
    errata.softmax_denominator theorems.loss_is_cross_entropy
(15) | the expected distribution
    theorems.loss_is_cross_entropy
(16) | the mean over counted positions, padding left out
    errata.mean_over_counted eq17.head_gradients
(17) | the gradients, backward through chains of Jacobians
    eq17.head_gradients eq17.feed_forward_gradients eq17.norm_gradients eq17.projection_gradients
    eq17.softmax_gradients eq17.attention_gradients eq17.embedding_gradients eq17.at_once program.real_size
    engine.one_layer engine.two_layers engine.pre_norm real_size.of_003
(17) | the list of parameters, and E at t_i
    errata.repeated_tokens errata.positions_are_learned eq17.embedding_gradients theorems.embeddings
after (17) | cached interim results are used
    eq17.adjoints program.real_size
(18) | gradient descent
    forward.descent real_size.replayed
after (18) | the rate may differ by quantity, head or layer
    forward.rates
(19) | the number of parameters
    eq19.eq_19 eq19.eq_19_condition eq19.eq_19_layer eq19.eq_19_switches eq19.eq_19_sweep
after (19) | the example: 38,848
    eq19.tiny errata.vocabulary_of_the_example
letters | K, V, F, L, H, t and sigma have several meanings
    errata.letters_twice
""",
    "004": """
Introduction | no recurrence: parallel, faster, better
    - {HISTORY}
Variables | the list of sizes, weights and biases, and their shapes
    eq19.of_004 eq19.of_004_free eq19.of_004_sweep eq19.base
Variables | LayerNorm has no parameters in it
    errata.norm_parameters eq19.of_004_switches
Variables | d_k = d_v = d_model / h
    eq19.of_004 forward.encoder_decoder
Functions | Attention, heads, MultiHead of the encoder and of the decoder
    forward.encoder_decoder sublayers.cross_attention_gradients
Functions | MaskedMultiHead in training: Mask is 0 for i >= j
    forward.encoder_decoder engine.mask engine.masked_models theorems.causality
Functions | the mask is removed at inference
    errata.mask_at_inference
Functions | LayerNorm does not change the shape
    forward.encoder_decoder sublayers.add_and_norm_gradients
Functions | FFN of the encoder and of the decoder
    forward.encoder_decoder theorems.position_by_position
Functions | PE by sine and cosine
    errata.encoding_origin forward.encoder_decoder theorems.shift_is_rotation
Training | X = sqrt(d_model) X_input W_Embedding
    forward.encoder_decoder sublayers.ends
Training | X' = PE(X) + X
    forward.encoder_decoder
Training | the encoder, Z_{i,1} to Z_{i,4}
    forward.encoder_decoder engine.translation sublayers.add_and_norm_gradients
Training | Z_{1,1} in R^{n x h d_v}; Y' in R^{n_input x d_model}
    errata.shapes_of_004
Training | the encoder's output is used in each stack of the decoder
    forward.encoder_decoder sublayers.all_stacks
Training | the output shifted to the right; y_0 a zero vector
    errata.first_word forward.encoder_decoder sublayers.ends
Training | the mask keeps the attention of y_i to y_j for j > i at 0
    engine.mask engine.masked_models theorems.causality
Training | the decoder, Z_{i,1} to Z_{i,6}
    forward.encoder_decoder engine.translation real_size.of_004
Training | MultiHead_i for MultiHead_1, Z_{1,4} for Z_{1,5}
    - {SLIP}
Training | Z = Z_{N,6} W^S + b^S, P = softmax(Z)
    forward.encoder_decoder sublayers.ends
Training | the cross-entropy of Y and P, summed
    errata.loss_of_004 forward.encoder_decoder sublayers.ends
Training | the targets
    errata.stop_word
Inference | predicted words are fed until a stop sign comes
    errata.stop_word errata.mask_at_inference
Caveats | training feeds all words at once, masked
    theorems.causality theorems.engine_causality
Caveats | feeding words one by one makes no sense
    errata.one_by_one
Concrete Example | earlier predictions change as words are added
    errata.mask_at_inference
Final Remarks | it fits on one page
    - {HISTORY}
""",
}


def _rows() -> list[Row]:
    rows = []
    reasons = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, str)}
    for document, table in TABLES.items():
        for entry in re.split(r"\n(?! )", table.strip()):
            first, claims = entry.split("\n", 1)
            passage, says = first.split(" | ")
            claims = " ".join(claims.split())
            why = claims.removeprefix("- ").format(**reasons) if claims.startswith("- ") else ""
            rows.append(Row(document, passage, says, () if why else tuple(claims.split()), why))
    return rows


ROWS = _rows()
assert all(row.why or row.claims for row in ROWS)


def rows_of(claim: Claim) -> list[Row]:
    """The statements that a claim covers, alone or with others."""
    return [row for row in ROWS if row.covers(claim)]
