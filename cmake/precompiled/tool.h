// SPDX-License-Identifier: Apache-2.0
// Precompiled for the command: the parser of command lines, which each of its sources includes.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cmake/precompiled/standard.h"
