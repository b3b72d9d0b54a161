"""Who does the work, one file for each. A peer is a class; all that a row asks of it is one of these methods.

    Peer(threads)                      import the package, and let it use so many threads
    training_step(case)                step(i): one training step on batch i, done when it returns; gives the loss
    sampler(case)                      sample(count, temperature): that many tokens after token 0, one by one
    products(form, a, b, n)            run(): n products, without Python in between
    eager_products(form, a, b, n)      run(): n products, each by a call
    operation(name, arrays)            {"forward": (run, n, idle), "backward": ...}: run() does it n times; idle() is
                                       what of that is no work on numbers, and its time is taken off (or None)

A peer need not have all of them. `case` is a `data.Case`: sizes, weights and batches, the same for everybody.
"""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True)
class Peer:
    title: str
    package: str
    path: str  # module:class

    def version(self) -> str | None:
        """The version that is installed, if any."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


PEERS = {
    "tinytensor": Peer("tinytensor", "numba", f"{__name__}.ours:TinyTensor"),
    "torch": Peer("PyTorch eager", "torch", f"{__name__}.torch_:Eager"),
    "torch.compile": Peer("torch.compile", "torch", f"{__name__}.torch_:Compiled"),
    "jax": Peer("JAX jit", "jax", f"{__name__}.jax_:Jit"),
    "moves": Peer("only moving its arrays", "numba", f"{__name__}.ours:Moves"),
    "parts": Peer("its parts, each at its best", "numba", f"{__name__}.ours:Parts"),
    "numpy": Peer("OpenBLAS (NumPy)", "numpy", f"{__name__}.numpy_:NumPy"),
}
