// SPDX-License-Identifier: Apache-2.0
// tessera devices: lists the devices.
#include <tessera/device.h>

#include <iostream>

#include "tools/tessera/command.h"

namespace tessera::tool {

void add_devices(CLI::App& app, std::function<int()>& run) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "List the devices, one a line");
  command->add_flag("--json", *json, "Print one JSON object");
  command->callback([&run, json] {
    run = [json] {
      if (!*json) {
        for (const Device& d : devices()) std::cout << d.to_string() << "\n";
        return kDone;
      }
      OrderedJson out;
      out["devices"] = OrderedJson::array();
      for (const Device& d : devices()) {
        out["devices"].push_back(
            {{"id", d.id}, {"platform", d.platform}, {"process", d.process_index}});
      }
      std::cout << out.dump() << "\n";
      return kDone;
    };
  });
}

}  // namespace tessera::tool
