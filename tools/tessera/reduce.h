// SPDX-License-Identifier: Apache-2.0
// Makes a program that shows a fault smaller, as long as it shows it.
#pragma once

#include <functional>
#include <memory>

#include "src/ir/module.h"

namespace tessera::tool {

/// Whether a program shows the fault.
using ShowsFault = std::function<bool(const ir::Module&)>;

/// The program without what comes after the fault, or isn't needed for it: instructions of the
/// entry become the result, or parameters, wherever the fault is still shown. `module` shows it.
/// Asks `shows` until nothing more can go, or `goes_on` says no.
std::unique_ptr<ir::Module> reduced(const ir::Module& module, const ShowsFault& shows,
                                    const std::function<bool()>& goes_on);

}  // namespace tessera::tool
