// SPDX-License-Identifier: Apache-2.0
// Precompiled for the tests of the layers from the IR upwards.
#pragma once

#include <gtest/gtest.h>

#include "cmake/precompiled/ir.h"
#include "src/ir/hlo/hlo_text.h"
