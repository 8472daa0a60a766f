// NcclBackend: the ranks' tensors live on GPUs, one device a rank.
//
// It stands on another backend of the same ranks (local, shm), which finds the ranks, passes NCCL's id around, and goes
// on carrying everything that lies in ordinary memory: bytes, sizes, CPU tensors. Tensors on the device go through NCCL,
// on streams of the group's own. An operation starts when the event recorded at the call has happened, so that the
// stream of the model is never waited for by the host, and it counts as done when the GPU has finished it.
//
// What is different from the other backends: NCCL adds in an order of its own choice, so the last bits of a sum may
// depend on the number of ranks and the size; ranks that call different things are found by the timeout; and a send is
// done only when it is being received, so two ranks that both send first have to issue their receives before they wait.
//
// It is part of libweft_cuda.so. libweft.so asks that library for the function below.
#pragma once
#include <chrono>

#include "distributed/comm/backend.h"

namespace weft::comm {

// Collective over the ranks of `base`, which the new backend owns from now on. The caller owns the new one.
using MakeNcclBackend = Backend* (*)(Backend* base, Device device, std::chrono::milliseconds timeout);
inline constexpr const char* kMakeNcclBackend = "weft_make_nccl_backend";

}  // namespace weft::comm
