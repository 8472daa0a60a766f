// What a report takes from debug information and source text: names of kernels and of their parameters.
#pragma once
#include <string>
#include <vector>

#include "kernels/simt/trace/symbolizer.h"

namespace weft::trace {

// "void weft::simt::(anonymous namespace)::rows<float, 4>(float const*, long)" -> "rows<float, 4>"
std::string kernel_name(const std::string& function);

// The names of the kernel's parameters, from its definition in the source file; empty where that cannot be read.
std::vector<std::string> parameter_names(const Line& definition, const std::string& kernel);

// The frame that a reader of the kernel wants to see: not a header of the language (simt.h and what it includes) and not
// the standard library's, but the line that uses it. Null if there are no frames.
const Frame* kernel_frame(const std::vector<Frame>& frames);

}  // namespace weft::trace
