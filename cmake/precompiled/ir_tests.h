// SPDX-License-Identifier: Apache-2.0
// Precompiled for the tests of the rooms from the IR upwards.
#pragma once

#include <gtest/gtest.h>

#include "cmake/precompiled/ir.h"
#include "src/ir/hlo_text.h"
