// The devices that tests compare with the CPU: those of WEFT_TEST_DEVICES (simt,cuda), else all that are here.
//
//   for (const Device device : test_devices()) …
#pragma once
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/base/device.h"

namespace weft {

inline std::vector<Device> test_devices() {
  std::vector<Device> devices;
  const char* const names = std::getenv("WEFT_TEST_DEVICES");
  if (!names) {
    for (const Device device : {Device::simt(), Device::cuda()})
      if (device_count(device.type) > 0) devices.push_back(device);
    return devices;
  }
  std::istringstream list(names);
  for (std::string one; std::getline(list, one, ',');)
    if (const Device device = device_named(one, "WEFT_TEST_DEVICES"); device != Device::cpu())
      devices.push_back(device);
  return devices;
}

}  // namespace weft
