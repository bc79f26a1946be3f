"""The C ABI of tutti for ctypes. Written by generate_abi.py from tutti.h: do not edit."""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_ubyte,
    c_uint32,
    c_uint64,
    c_void_p,
    sizeof,
)
from typing import Any, Dict, List, Tuple

TUTTI_VERSION_MAJOR = 0
TUTTI_VERSION_MINOR = 1
TUTTI_VERSION_PATCH = 0
TUTTI_DTYPE_MOST_BYTES = 4096
TUTTI_IN_PLACE = 2 ** (8 * sizeof(c_void_p)) - 1
TUTTI_CALL_UNFUSED = 1
TUTTI_CALL_SYMMETRIC = 2
TUTTI_NO_PEER = -1
TUTTI_NO_REQUEST = 2 ** (8 * sizeof(c_size_t)) - 1

# tutti_status
TUTTI_OK = 0
TUTTI_IN_PROGRESS = 1
TUTTI_INVALID = 2
TUTTI_UNSUPPORTED = 3
TUTTI_NO_MEMORY = 4
TUTTI_TIMEOUT = 5
TUTTI_PEER_FAILED = 6
TUTTI_ABORTED = 7
TUTTI_MISMATCH = 8
TUTTI_CORRUPT = 9
TUTTI_AUTH = 10
TUTTI_SYSTEM = 11
TUTTI_INTERNAL = 12

# tutti_dtype
TUTTI_INT8 = 0
TUTTI_INT16 = 1
TUTTI_INT32 = 2
TUTTI_INT64 = 3
TUTTI_UINT8 = 4
TUTTI_UINT16 = 5
TUTTI_UINT32 = 6
TUTTI_UINT64 = 7
TUTTI_FLOAT16 = 8
TUTTI_BFLOAT16 = 9
TUTTI_FLOAT32 = 10
TUTTI_FLOAT64 = 11
TUTTI_COMPLEX64 = 12
TUTTI_COMPLEX128 = 13
TUTTI_FLOAT8_E4M3 = 14
TUTTI_FLOAT8_E5M2 = 15
TUTTI_BOOL = 16
TUTTI_FLOAT32_INT32 = 17
TUTTI_FLOAT64_INT64 = 18
TUTTI_INT32_INT32 = 19
TUTTI_INT64_INT64 = 20
TUTTI_BINNED_FLOAT32 = 21
TUTTI_BINNED_FLOAT64 = 22
TUTTI_DTYPE_COUNT = 23
TUTTI_DTYPE_ANY_INT = 2147483647

# tutti_op
TUTTI_SUM = 0
TUTTI_PROD = 1
TUTTI_MIN = 2
TUTTI_MAX = 3
TUTTI_AVG = 4
TUTTI_LAND = 5
TUTTI_LOR = 6
TUTTI_LXOR = 7
TUTTI_BAND = 8
TUTTI_BOR = 9
TUTTI_BXOR = 10
TUTTI_MINLOC = 11
TUTTI_MAXLOC = 12
TUTTI_OP_COUNT = 13
TUTTI_OP_ANY_INT = 2147483647

# tutti_level
TUTTI_LEVEL_DEFAULT = 0
TUTTI_LEVEL_FAST = 1
TUTTI_LEVEL_LAYOUT = 2
TUTTI_LEVEL_CANONICAL = 3
TUTTI_LEVEL_EXACT = 4
TUTTI_LEVEL_COUNT = 5
TUTTI_LEVEL_ANY_INT = 2147483647

# tutti_memory_kind
TUTTI_MEMORY_HOST = 0
TUTTI_MEMORY_PINNED = 1
TUTTI_MEMORY_MANAGED = 2
TUTTI_MEMORY_DEVICE = 3

# tutti_log_level
TUTTI_LOG_ERROR = 0
TUTTI_LOG_WARNING = 1
TUTTI_LOG_INFO = 2
TUTTI_LOG_DEBUG = 3

# Functions of the program's.
tutti_op_fn = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_void_p)
tutti_progress_fn = CFUNCTYPE(None, c_void_p)
tutti_allgather_fn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)
tutti_log_fn = CFUNCTYPE(None, c_int, c_char_p, c_void_p)


class tutti_float32_int32(Structure):
    _fields_ = [
        ("value", c_float),
        ("index", c_int32),
    ]


class tutti_float64_int64(Structure):
    _fields_ = [
        ("value", c_double),
        ("index", c_int64),
    ]


class tutti_int32_int32(Structure):
    _fields_ = [
        ("value", c_int32),
        ("index", c_int32),
    ]


class tutti_int64_int64(Structure):
    _fields_ = [
        ("value", c_int64),
        ("index", c_int64),
    ]


class tutti_binned_float32(Structure):
    _fields_ = [
        ("words", c_uint64 * 4),
    ]


class tutti_binned_float64(Structure):
    _fields_ = [
        ("words", c_uint64 * 8),
    ]


class tutti_unique_id(Structure):
    _fields_ = [
        ("bytes", c_ubyte * 128),
    ]


class tutti_comm_config(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("transports", c_char_p),
        ("timeout_ms", c_int64),
        ("setup_ms", c_int64),
        ("interface_", c_char_p),
        ("progress_thread", c_int),
        ("level", c_int),
        ("device", c_char_p),
        ("tuning", c_char_p),
        ("progress", tutti_progress_fn),
        ("progress_context", c_void_p),
    ]


class tutti_error(Structure):
    _fields_ = [
        ("status", c_int),
        ("rank", c_int),
        ("call", c_uint64),
        ("text", c_char_p),
    ]


class tutti_comm_counters(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("calls", c_uint64),
        ("direct_calls", c_uint64),
        ("messages_sent", c_uint64),
        ("bytes_sent", c_uint64),
        ("messages_received", c_uint64),
        ("bytes_received", c_uint64),
    ]


class tutti_call_config(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("timeout_ms", c_int64),
        ("algorithm", c_char_p),
        ("flags", c_uint32),
        ("level", c_int),
    ]


class tutti_sparse_in(Structure):
    _fields_ = [
        ("indices", POINTER(c_uint32)),
        ("values", c_void_p),
        ("entries", c_size_t),
    ]


class tutti_sparse_out(Structure):
    _fields_ = [
        ("indices", POINTER(c_uint32)),
        ("values", c_void_p),
        ("capacity", c_size_t),
        ("entries", c_size_t),
    ]


class tutti_codec(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("block", c_size_t),
        ("encoded_bytes", CFUNCTYPE(c_size_t, c_size_t, c_void_p)),
        ("encode", CFUNCTYPE(None, POINTER(c_float), c_size_t, c_void_p, c_void_p)),
        ("decode", CFUNCTYPE(None, c_void_p, c_size_t, POINTER(c_float), c_void_p)),
        ("context", c_void_p),
    ]


class tutti_codec_error(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("max_error", c_double),
        ("rms_error", c_double),
        ("rms_value", c_double),
        ("not_finite", c_uint64),
    ]


class tutti_algorithm_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("collective", c_char_p),
        ("about", c_char_p),
    ]


class tutti_explanation(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("algorithm", c_char * 32),
        ("path", c_char * 32),
        ("transport", c_char * 32),
        ("reason", c_char * 256),
        ("predicted_us", c_double),
        ("runner_up", c_char * 32),
        ("runner_up_us", c_double),
        ("tuning", c_char * 32),
        ("measured_us", c_double),
        ("runner_up_measured_us", c_double),
        ("way", c_char * 48),
        ("runner_up_way", c_char * 48),
    ]


# name: (result, parameters). Enumerations are c_int; handles and addresses c_void_p.
PROTOTYPES: Dict[str, Tuple[Any, List[Any]]] = {
    "tutti_status_name": (c_char_p, [c_int]),
    "tutti_last_error": (c_char_p, []),
    "tutti_version": (c_char_p, []),
    "tutti_dtype_create": (c_int, [c_size_t, c_char_p, POINTER(c_int)]),
    "tutti_dtype_free": (c_int, [c_int]),
    "tutti_op_create": (c_int, [tutti_op_fn, c_void_p, c_int, POINTER(c_int)]),
    "tutti_op_free": (c_int, [c_int]),
    "tutti_dtype_size": (c_size_t, [c_int]),
    "tutti_dtype_name": (c_char_p, [c_int]),
    "tutti_op_name": (c_char_p, [c_int]),
    "tutti_dtype_from_name": (c_int, [c_char_p, POINTER(c_int)]),
    "tutti_op_from_name": (c_int, [c_char_p, POINTER(c_int)]),
    "tutti_op_supports": (c_int, [c_int, c_int]),
    "tutti_level_name": (c_char_p, [c_int]),
    "tutti_level_from_name": (c_int, [c_char_p, POINTER(c_int)]),
    "tutti_reduce_local": (c_int, [POINTER(c_void_p), c_size_t, c_void_p, c_size_t, c_int, c_int, c_int]),
    "tutti_binned_deposit": (c_int, [c_void_p, c_int, c_void_p, c_size_t, c_int]),
    "tutti_binned_deposit_all": (c_int, [c_void_p, c_int, c_void_p, c_size_t, c_int]),
    "tutti_binned_finish": (c_int, [c_void_p, c_int, c_void_p, c_size_t, c_int]),
    "tutti_unique_id_create": (c_int, [c_char_p, POINTER(tutti_unique_id)]),
    "tutti_comm_create_from_id": (c_int, [POINTER(tutti_unique_id), c_int, c_int, POINTER(tutti_comm_config), POINTER(c_void_p)]),
    "tutti_comm_create_from_env": (c_int, [POINTER(tutti_comm_config), POINTER(c_void_p)]),
    "tutti_comm_create_from_allgather": (c_int, [tutti_allgather_fn, c_void_p, c_int, c_int, POINTER(tutti_comm_config), POINTER(c_void_p)]),
    "tutti_comm_split": (c_int, [c_void_p, c_int, c_int, POINTER(c_void_p)]),
    "tutti_comm_split_host": (c_int, [c_void_p, c_int, POINTER(c_void_p)]),
    "tutti_comm_create_group": (c_int, [c_void_p, POINTER(c_int), c_size_t, POINTER(c_void_p)]),
    "tutti_comm_dup": (c_int, [c_void_p, POINTER(c_void_p)]),
    "tutti_comm_free": (c_int, [c_void_p]),
    "tutti_comm_abort": (c_int, [c_void_p, c_char_p]),
    "tutti_comm_rank": (c_int, [c_void_p, POINTER(c_int)]),
    "tutti_comm_size": (c_int, [c_void_p, POINTER(c_int)]),
    "tutti_comm_transport": (c_int, [c_void_p, POINTER(c_char_p)]),
    "tutti_comm_last_error": (c_int, [c_void_p, POINTER(tutti_error)]),
    "tutti_comm_failed_ranks": (c_int, [c_void_p, POINTER(c_int), c_size_t, POINTER(c_size_t)]),
    "tutti_comm_agree": (c_int, [c_void_p, POINTER(c_uint64), c_int64]),
    "tutti_comm_shrink": (c_int, [c_void_p, c_int64, POINTER(c_void_p)]),
    "tutti_comm_grow": (c_int, [c_void_p, POINTER(tutti_unique_id), c_int, POINTER(c_void_p)]),
    "tutti_comm_get_counters": (c_int, [c_void_p, POINTER(tutti_comm_counters)]),
    "tutti_op_create_premul_sum": (c_int, [c_void_p, c_void_p, c_int, POINTER(c_int)]),
    "tutti_mem_alloc": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "tutti_mem_free": (c_int, [c_void_p, c_void_p]),
    "tutti_mem_register": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_uint64]),
    "tutti_mem_deregister": (c_int, [c_void_p, c_void_p]),
    "tutti_mem_adopt": (c_int, [c_void_p, c_void_p, c_size_t]),
    "tutti_mem_release": (c_int, [c_void_p, c_void_p]),
    "tutti_memory_classify": (c_int, [c_void_p, POINTER(c_int), POINTER(c_int)]),
    "tutti_mem_alloc_device": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "tutti_mem_register_device": (c_int, [c_void_p, c_void_p, c_size_t]),
    "tutti_comm_device_status": (c_int, [c_void_p]),
    "tutti_allreduce": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "tutti_allreduce_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_reduce": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p]),
    "tutti_reduce_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_broadcast": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "tutti_broadcast_with": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_allgather": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p]),
    "tutti_allgather_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_allgatherv": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p]),
    "tutti_allgatherv_with": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_gather": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "tutti_gather_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_gatherv": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_int, c_void_p]),
    "tutti_gatherv_with": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_scatter": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "tutti_scatter_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_scatterv": (c_int, [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "tutti_scatterv_with": (c_int, [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_reduce_scatter_block": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "tutti_reduce_scatter_block_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_reduce_scatter": (c_int, [c_void_p, c_void_p, POINTER(c_size_t), c_int, c_int, c_void_p]),
    "tutti_reduce_scatter_with": (c_int, [c_void_p, c_void_p, POINTER(c_size_t), c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_alltoall": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p]),
    "tutti_alltoall_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_alltoallv": (c_int, [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p]),
    "tutti_alltoallv_with": (c_int, [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_scan": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "tutti_scan_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_exscan": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p]),
    "tutti_exscan_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_barrier": (c_int, [c_void_p]),
    "tutti_barrier_with": (c_int, [c_void_p, POINTER(tutti_call_config)]),
    "tutti_allreduce_sparse": (c_int, [POINTER(tutti_sparse_in), POINTER(tutti_sparse_out), c_size_t, c_int, c_int, c_void_p]),
    "tutti_allreduce_sparse_with": (c_int, [POINTER(tutti_sparse_in), POINTER(tutti_sparse_out), c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_topk_create": (c_int, [c_size_t, c_size_t, c_int, POINTER(c_void_p)]),
    "tutti_topk_free": (c_int, [c_void_p]),
    "tutti_topk_allreduce": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "tutti_topk_allreduce_with": (c_int, [c_void_p, c_void_p, c_int, c_void_p, c_void_p, POINTER(tutti_call_config)]),
    "tutti_topk_residual": (c_int, [c_void_p, POINTER(c_void_p)]),
    "tutti_codec_from_name": (c_int, [c_char_p, POINTER(POINTER(tutti_codec))]),
    "tutti_allreduce_coded": (c_int, [c_void_p, c_void_p, c_size_t, c_int, POINTER(tutti_codec), c_void_p]),
    "tutti_allreduce_coded_with": (c_int, [c_void_p, c_void_p, c_size_t, c_int, POINTER(tutti_codec), c_void_p, POINTER(tutti_call_config), POINTER(tutti_codec_error)]),
    "tutti_send": (c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p]),
    "tutti_recv": (c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p]),
    "tutti_send_with": (c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_recv_with": (c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_sendrecv": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p]),
    "tutti_sendrecv_with": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config)]),
    "tutti_group_begin": (c_int, [c_void_p]),
    "tutti_group_end": (c_int, [c_void_p]),
    "tutti_group_end_with": (c_int, [c_void_p, POINTER(tutti_call_config)]),
    "tutti_group_cancel": (c_int, [c_void_p]),
    "tutti_iallreduce": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_ireduce": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_ibroadcast": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_iallgather": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_iallgatherv": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_igather": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_igatherv": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_iscatter": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_iscatterv": (c_int, [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_ireduce_scatter_block": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_ireduce_scatter": (c_int, [c_void_p, c_void_p, POINTER(c_size_t), c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_ialltoall": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_ialltoallv": (c_int, [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_iscan": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_iexscan": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_ibarrier": (c_int, [c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_isend": (c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_irecv": (c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_irecv_any": (c_int, [c_void_p, c_size_t, c_int, c_int, POINTER(c_int), c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_isendrecv": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_allreduce_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_reduce_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_broadcast_init": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_allgather_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_allgatherv_init": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_gather_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_gatherv_init": (c_int, [c_void_p, c_size_t, c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_scatter_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_scatterv_init": (c_int, [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_reduce_scatter_block_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_reduce_scatter_init": (c_int, [c_void_p, c_void_p, POINTER(c_size_t), c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_alltoall_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_alltoallv_init": (c_int, [c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_void_p, POINTER(c_size_t), POINTER(c_size_t), c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_scan_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_exscan_init": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_barrier_init": (c_int, [c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_send_init": (c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_recv_init": (c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_sendrecv_init": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(c_void_p)]),
    "tutti_start": (c_int, [c_void_p]),
    "tutti_startall": (c_int, [c_size_t, POINTER(c_void_p)]),
    "tutti_wait": (c_int, [POINTER(c_void_p)]),
    "tutti_waitall": (c_int, [c_size_t, POINTER(c_void_p)]),
    "tutti_waitany": (c_int, [c_size_t, POINTER(c_void_p), POINTER(c_size_t)]),
    "tutti_test": (c_int, [POINTER(c_void_p), POINTER(c_int)]),
    "tutti_request_free": (c_int, [POINTER(c_void_p)]),
    "tutti_allreduce_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_reduce_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_broadcast_on": (c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_allgather_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_gather_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_scatter_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_reduce_scatter_block_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_alltoall_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_scan_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_exscan_on": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_barrier_on": (c_int, [c_void_p, POINTER(tutti_call_config), c_void_p]),
    "tutti_algorithm_get": (c_int, [c_size_t, POINTER(tutti_algorithm_info)]),
    "tutti_allreduce_explain": (c_int, [c_size_t, c_int, c_int, c_void_p, POINTER(tutti_call_config), POINTER(tutti_explanation)]),
    "tutti_log_set": (None, [tutti_log_fn, c_void_p]),
}
