// SPDX-License-Identifier: Apache-2.0
// Precompiled for the layers from the IR upwards: what nearly all of their sources include. A header
// that stands here rebuilds all of them when it changes.
#pragma once

#include "cmake/precompiled/standard.h"
#include "src/base/check.h"
#include "src/base/literal_util.h"
#include "src/ir/module.h"
