"""Ten formulas from papers, as a user writes them, and their gradients as a textbook gives them.

g stands for the gradient that arrives at the result: ∂𝓛/∂Y. A result that is a loss has none. The lines are those by
which the gradient of each argument is computed; a name with d in front is the gradient of a named interim result. Most
of the functions are those of `examples/gradients`, of which the course's site has pages.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import tinytensor as tt
from examples.gradients.functions import (
    alibi,
    causal,
    cosine,
    dpo,
    focal,
    gru,
    infonce,
    layer_norm,
    log_determinant,
    rms_norm,
    rotary,
    smoothing,
    swiglu,
)
from tinytensor.nn import functional as F
from tinytensor.symbolic.derive.arguments import Index


@dataclass(frozen=True)
class Paper:
    """A function, its arguments for `derive`, the textbook's lines of its gradient, and where they are from."""

    fn: Callable
    arguments: dict
    lines: tuple[str, ...]
    source: str
    constants: dict = field(default_factory=dict)  # name: its array, from numbers for the sizes

    def __str__(self):
        return self.fn.__name__


def fused_layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def fused_rms_norm(x, w):
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def rotary_from_positions(x):
    T, D = x.shape
    frequency = 10000.0 ** (-tt.arange(0, D, 2, dtype=tt.float64) / D)
    angle = tt.arange(T, dtype=tt.float64)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    return rotary(x, cos, sin)


def causal_heads(Q, K, V):
    return F.scaled_dot_product_attention(Q, K, V, is_causal=True)


def fused_cosine(a, b):
    return 1 - F.cosine_similarity(a, b, dim=-1).mean()


def smoothing_by_hand(z, t):
    K = z.shape[-1]
    q = F.one_hot(t, K).to(z.dtype) * 0.9 + 0.1 / K
    return -(q * F.log_softmax(z, -1)).sum(-1).mean()


def sigmoid_by_hand(x):
    return 1 / (1 + (-x).exp())


def _angles(T: int, half: int):
    frequency = 10000.0 ** (-tt.arange(0, 2 * half, 2, dtype=tt.float64) / (2 * half))
    return (tt.arange(T, dtype=tt.float64)[:, None] * frequency).numpy()


ND, TK, K = ("N", "D"), ("T", "K"), Index(("N",), "K")
NORM = "r_n (w_d g_nd - z_nd/D Σ_i z_ni w_i g_ni - 1/D Σ_i w_i g_ni)"
ATTENTION = (
    "dP_ti = Σ_d V_id g_td",
    "dS_ti = P_ti (dP_ti - Σ_j P_tj dP_tj)",
    "dV_td = Σ_i P_it g_id",
    "dK_ti = 1/√K Σ_j Q_ji dS_jt",
    "dQ_ti = 1/√K Σ_j K_ji dS_tj",
)
PAPERS = [
    Paper(
        fused_layer_norm,
        {"x": ND, "w": ("D",), "b": ("D",)},
        ("db_d = Σ_n g_nd", "dw_d = Σ_n z_nd g_nd", f"dx_nd = {NORM}", "dz_nd = w_d g_nd"),
        "Ba, Kiros and Hinton 2016, Layer Normalization",
    ),
    Paper(
        layer_norm,
        {"x": ND, "w": ("D",), "b": ("D",)},
        ("db_d = Σ_n g_nd", "dw_d = Σ_n z_nd g_nd", f"dx_nd = {NORM}", "dz_nd = w_d g_nd"),
        "Ba, Kiros and Hinton 2016, Layer Normalization",
    ),
    Paper(
        fused_rms_norm,
        {"x": ND, "w": ("D",)},
        ("dw_d = Σ_n z_nd g_nd", "dx_nd = r_n (w_d g_nd - z_nd/D Σ_i z_ni w_i g_ni)"),
        "Zhang and Sennrich 2019, Root Mean Square Layer Normalization",
    ),
    Paper(
        rms_norm,
        {"x": ND, "w": ("D",)},
        ("dw_d = Σ_n z_nd g_nd", "dx_nd = r_n (w_d g_nd - z_nd/D Σ_i z_ni w_i g_ni)"),
        "Zhang and Sennrich 2019, Root Mean Square Layer Normalization",
    ),
    Paper(
        swiglu,
        {"x": ND, "W": ("D", "F"), "V": ("D", "F"), "U": ("F", "D")},
        (
            "du_nf = Σ_d U_fd g_nd",
            "dB_nf = A_nf s_nf du_nf",
            "dA_nf = (1 + A_nf (1 - s_nf)) B_nf s_nf du_nf",
            "dU_fd = Σ_n u_nf g_nd",
            "dV_df = Σ_n x_nd dB_nf",
            "dW_df = Σ_n x_nd dA_nf",
            "dx_nd = Σ_f V_df dB_nf + Σ_f W_df dA_nf",
        ),
        "Shazeer 2020, GLU Variants Improve Transformer",
    ),
    Paper(
        rotary,
        {"x": ("T", "K*2"), "cos": TK, "sin": TK},
        (
            "dsin_ti = x_ti(1) g_ti(2) - x_ti(2) g_ti(1)",
            "dcos_ti = x_ti(1) g_ti(1) + x_ti(2) g_ti(2)",
            "dx_ti(1) = cos_ti g_ti(1) + sin_ti g_ti(2)",
            "dx_ti(2) = cos_ti g_ti(2) - sin_ti g_ti(1)",
        ),
        "Su and others 2021, RoFormer, (34)",
    ),
    Paper(
        rotary_from_positions,
        {"x": ("T", "K*2")},
        ("dx_ti(1) = cos_ti g_ti(1) + sin_ti g_ti(2)", "dx_ti(2) = cos_ti g_ti(2) - sin_ti g_ti(1)"),
        "Su and others 2021, RoFormer, (34)",
        {
            "cos": lambda T, K: tt.tensor(_angles(T, K)).cos().numpy(),
            "sin": lambda T, K: tt.tensor(_angles(T, K)).sin().numpy(),
        },
    ),
    Paper(
        alibi,
        {"Q": TK, "K": TK, "V": ("T", "D"), "m": ()},
        (*ATTENTION, "dm = Σ_ti (i - t) dS_ti"),
        "Press, Smith and Lewis 2022, Train Short, Test Long; its slope m is not learned there",
    ),
    Paper(causal, {"Q": TK, "K": TK, "V": ("T", "D")}, ATTENTION, "Vaswani and others 2017, (1)"),
    Paper(
        causal_heads,
        dict.fromkeys("QKV", ("B", "H", "T", "K")),
        tuple(x.replace("_", "_bh") for x in ATTENTION),
        "Vaswani and others 2017, (1)",
    ),
    Paper(
        focal,
        {"z": ("N", "K"), "t": K},
        ("dz_ni = (1 - p_n) (2 p_n log p_n + p_n - 1) (δ(i, t_n) - q_ni)/N",),
        "Lin and others 2017, Focal Loss, appendix B, with γ = 2",
    ),
    Paper(
        infonce,
        {"q": ND, "k": ND},
        (
            "dS_ni = (p_ni - δ(i, n))/N",
            "dk2_id = 1/0.07 Σ_n q2_nd dS_ni",
            "dq2_nd = 1/0.07 Σ_i k2_id dS_ni",
            "dk_nd = 1/r2_n (dk2_nd - k2_nd Σ_i k2_ni dk2_ni)",
            "dq_nd = 1/r_n (dq2_nd - q2_nd Σ_i q2_ni dq2_ni)",
        ),
        "van den Oord and others 2018; with the cosine and temperature of Chen and others 2020, SimCLR",
    ),
    Paper(
        dpo,
        dict.fromkeys(("win", "lose", "win0", "lose0"), ("N",)),
        ("da_n = -σ(-a_n)/N", "dwin_n = 0.1 da_n", "dlose_n = -0.1 da_n", "dwin0_n = -0.1 da_n", "dlose0_n = 0.1 da_n"),
        "Rafailov and others 2023, Direct Preference Optimization, section 4",
    ),
    Paper(
        fused_cosine,
        {"a": ND, "b": ND},
        ("da_nd = (c_n a_nd/r_n - b_nd/r2_n)/(r_n N)", "db_nd = (c_n b_nd/r2_n - a_nd/r_n)/(r2_n N)"),
        "any textbook: the derivative of a/|a| is orthogonal to a",
    ),
    Paper(
        cosine,
        {"a": ND, "b": ND},
        ("da_nd = (c_n a_nd/r_n - b_nd/r2_n)/(r_n N)", "db_nd = (c_n b_nd/r2_n - a_nd/r_n)/(r2_n N)"),
        "any textbook: the derivative of a/|a| is orthogonal to a",
    ),
    Paper(
        gru,
        {
            "x": ND,
            "h": ("N", "H"),
            **{f"{a}{gate}": s for gate in "zrn" for a, s in {"W": ("D", "H"), "U": ("H", "H"), "b": ("H",)}.items()},
        },
        (
            "dn_nh = (1 - n_nh²) (1 - z_nh) g_nh",
            "du_nh = Σ_i Un_hi dn_ni",
            "dr_nh = r_nh (1 - r_nh) h_nh du_nh",
            "dz_nh = z_nh (1 - z_nh) (h_nh - n_nh) g_nh",
            *[f"db{gate}_h = Σ_n d{gate}_nh" for gate in "zrn"],
            *[f"dU{gate}_hi = Σ_n h_nh d{gate}_ni" for gate in "zrn"],
            *[f"dW{gate}_dh = Σ_n x_nd d{gate}_nh" for gate in "zrn"],
            "dh_nh = z_nh g_nh + r_nh du_nh + Σ_i Ur_hi dr_ni + Σ_i Uz_hi dz_ni",
            "dx_nd = Σ_h Wn_dh dn_nh + Σ_h Wr_dh dr_nh + Σ_h Wz_dh dz_nh",
        ),
        "Cho and others 2014, (5) to (8)",
    ),
    Paper(
        smoothing,
        {"z": ("N", "K"), "t": K},
        ("dz_ni = (q_ni - 0.9 δ(i, t_n) - 0.1/K)/N",),
        "Szegedy and others 2016, Rethinking the Inception Architecture, section 7",
    ),
    Paper(
        smoothing_by_hand,
        {"z": ("N", "K"), "t": K},
        ("dz_ni = (exp(y_ni) - q_ni)/N",),
        "Szegedy and others 2016, Rethinking the Inception Architecture, section 7",
    ),
    Paper(
        log_determinant,
        {"L": ("N", "N")},
        ("dL_ij = 2 δ(i, j)/L_ii",),
        "Rasmussen and Williams 2006, Gaussian Processes, (A.18): log |A| = 2 Σ log L_ii",
    ),
    Paper(sigmoid_by_hand, {"x": ("N",)}, ("dx_n = Y_n (1 - Y_n) g_n",), "any textbook"),
]
