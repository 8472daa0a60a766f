// libFuzzer on the reader of JSON texts.
//
//   json_fuzz CORPUS -max_total_time=60
#include "tests/fuzz/properties.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::check_json({reinterpret_cast<const char*>(data), size});
  return 0;
}
