// SPDX-License-Identifier: Apache-2.0
// Precompiled for the layers from the IR upwards: what nearly all of their sources include. A
// change of a header listed here rebuilds all of them.
#pragma once

#include "cmake/precompiled/standard.h"
#include "src/base/arrays/literal_util.h"
#include "src/base/check.h"
#include "src/ir/module.h"
