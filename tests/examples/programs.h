// Where the built examples are.
#pragma once
#include <string>

#include "tests/support/child_process.h"

namespace weft::test {

// build/examples/NAME/NAME
inline std::string example_program(const std::string& name) { return build_folder() / "examples" / name / name; }

}  // namespace weft::test
