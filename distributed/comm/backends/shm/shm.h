// ShmBackend: the ranks are processes of one host.
//
// A group is a memory file with its control block, made by rank 0 and passed to the others over Unix sockets (peers.h).
// Tensors from ProcessGroup::empty_shared lie in such files too, so that every rank reads and writes them in place; others
// are staged. Nothing has a name in the file system, so nothing is left behind, however the processes end.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "distributed/comm/backend.h"
#include "distributed/comm/store.h"

namespace weft::comm {

// Collective over `size` processes that use the same store. Throws timeout, peer_lost, out_of_memory; unsupported when they
// are not on one host.
std::unique_ptr<Backend> make_shm_backend(Store& store, int rank, int size, const std::string& name,
                                          std::chrono::milliseconds timeout);

}  // namespace weft::comm
