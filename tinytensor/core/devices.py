"""Devices: tensors are on the CPU, or on "meta" as shapes without data. Other devices can only be named."""

# PyTorch's devices. A program may name one before it asks whether it is available; only the CPU computes here.
NAMES = ("cpu", "meta", "cuda", "mps", "xpu", "xla", "hpu", "hip", "mtia", "vulkan")


class device(str):
    """A device by its name: `device("cpu")`, `device("cuda:1")`, `device("cuda", 1)`; a string, equal to the name.

    There is one CPU and one "meta", so their index is left out. Raises RuntimeError for a name that is none of
    PyTorch's.
    """

    __slots__ = ()

    def __new__(cls, type: "str | int | device" = "cpu", index: int | None = None):
        name = f"cuda:{type}" if isinstance(type, int) else str(type)
        type_name, _, number = name.partition(":")
        if type_name not in NAMES or (":" in name and not number.isdecimal()) or (number and index is not None):
            raise RuntimeError(f"device: {name!r} is no device; expected 'cpu' or 'meta' (dtypes have no quotes)")
        number = number if index is None else str(index)
        return str.__new__(cls, type_name if type_name in ("cpu", "meta") or not number else f"{type_name}:{number}")

    @property
    def type(self) -> str:
        """The name without the index."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:
        """The number of the device among those of its type, or None if none was given."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + ("" if self.index is None else f", index={self.index}") + ")"

    def __enter__(self) -> "device":
        return check_device(self, "with device(...)", "cpu")  # sets PyTorch's default device; here it is always the CPU

    def __exit__(self, *exc) -> None:
        pass


CPU, META = device("cpu"), device("meta")


def check_device(where, what: str, *offered: str) -> device:
    """The device that `where` names, the CPU for None; RuntimeError if it is not among those offered."""
    chosen = CPU if where is None else device(where)
    if chosen not in (offered or ("cpu", "meta")):
        raise RuntimeError(f"{what}: device {str(chosen)!r} is not available: tinytensor computes on the CPU only")
    return chosen
