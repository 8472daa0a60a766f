// LocalBackend: the ranks are threads of one process. Every buffer is directly reachable, so nothing large is copied
// twice and there is nothing to set up; tests of distributed code run on it, also under ThreadSanitizer.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "distributed/comm/backend.h"

namespace weft::comm {

// The backends of ranks 0 … size-1 of a new group.
std::vector<std::unique_ptr<Backend>> make_local_backends(int size, const std::string& name);

}  // namespace weft::comm
