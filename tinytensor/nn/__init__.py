"""Layers, losses and initial values, under PyTorch's names."""

from tinytensor.nn import functional, init, parallel, utils
from tinytensor.nn.attention import MultiheadAttention
from tinytensor.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from tinytensor.nn.generated import MODULES
from tinytensor.nn.layers import (
    BatchNorm1d,
    Bilinear,
    Conv1d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    Embedding,
    Flatten,
    GroupNorm,
    Identity,
    LayerNorm,
    Linear,
    PReLU,
    RMSNorm,
    Threshold,
    Unflatten,
    ZeroPad2d,
)
from tinytensor.nn.module import Buffer, Module, Parameter
from tinytensor.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from tinytensor.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

globals().update(MODULES)
