// SPDX-License-Identifier: Apache-2.0
// Precompiled for the tests of the layers below the IR.
#pragma once

#include <gtest/gtest.h>

#include "cmake/precompiled/standard.h"
