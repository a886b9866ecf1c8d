// SPDX-License-Identifier: Apache-2.0
#include <tessera/device.h>

#include <iostream>

#include "tools/tessera/command.h"

namespace tessera::tool {

void add_devices(CLI::App& app, std::function<int()>& run) {
  CLI::App* command = app.add_subcommand("devices", "List the devices, one a line");
  command->callback([&run] {
    run = [] {
      for (const Device& d : devices()) std::cout << d.to_string() << "\n";
      return 0;
    };
  });
}

}  // namespace tessera::tool
