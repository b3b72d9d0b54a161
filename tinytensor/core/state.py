"""The switches of each thread: is there a tape, a recording, a profile? Who watches operations and launches?"""

import threading

WATCHERS = frozenset({"recording", "reading", "profile", "anomaly", "on_op"})  # switches of State


class State(threading.local):
    """The switches of this thread; another thread that computes at the same time has its own."""

    # Python calls this in each thread. Thread-local attributes are slow, so hot paths read `state.__dict__` once.
    def __init__(self):
        self.grad = True  # operations on tensors that require grad go on the tape
        self.recording = None  # the Recording that notes launches, if any
        self.reading = None  # what reads a function without values (symbolic/reading), if a function is read
        self.anomaly = None  # anomaly mode's Search for NaN and inf (autograd/anomaly_mode.py), if any
        self.profile = None  # the Profile that times launches, if any
        self.on_op = None  # called by each operation (op, args, y), whose y it returns
        self.on_read = None  # called by each read of values outside of kernels (what, tensor)
        self.on_node = None  # called by each node (node, args, y)
        self.on_random = None  # called by each draw of random numbers (what, generator)

    def __setattr__(self, name: str, value) -> None:
        """Set a switch, and update `watched`: does one of WATCHERS look at each operation or launch?"""
        now = self.__dict__
        now[name] = value
        if name in WATCHERS:
            now["watched"] = any(now.get(watcher) for watcher in WATCHERS)


state = State()
