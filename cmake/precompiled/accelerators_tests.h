// SPDX-License-Identifier: Apache-2.0
// Precompiled for the tests that are linked as users' programs are.
#pragma once

#include <gtest/gtest.h>

#include <tessera/tessera.h>
