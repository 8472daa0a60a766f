// The conformance cases that every backend of ProcessGroup has to pass. Each runs on every rank of a group; failures are
// reported with EXPECT. process_group_test.cpp runs them on ranks that are threads and on ranks that are processes.
#pragma once
#include <map>
#include <string>

#include "distributed/comm/process_group.h"

namespace weft::testing {

using GroupCase = void (*)(const ProcessGroup& group);
const std::map<std::string, GroupCase>& process_group_cases();

}  // namespace weft::testing
