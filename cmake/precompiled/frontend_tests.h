// SPDX-License-Identifier: Apache-2.0
// Precompiled for the tests of the front end and of the tools: the public headers that most of them
// include.
#pragma once

#include <gtest/gtest.h>
#include <tessera/jit.h>
#include <tessera/ops.h>

#include "cmake/precompiled/standard.h"
