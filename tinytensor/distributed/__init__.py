"""Several processes that train one model: MPI carries their messages, under the names of torch.distributed."""

from tinytensor.distributed.collectives import (
    ReduceOp,
    all_gather,
    all_gather_object,
    all_reduce,
    barrier,
    broadcast,
    broadcast_object_list,
)
from tinytensor.distributed.group import (
    abort,
    destroy_process_group,
    get_backend,
    get_rank,
    get_world_size,
    init_process_group,
    is_available,
    is_initialized,
    is_mpi_launched,
)
