// SPDX-License-Identifier: Apache-2.0
// Precompiled for the front end: what nearly all of its sources include.
#pragma once

#include <tessera/array.h>

#include "cmake/precompiled/ir.h"
#include "src/frontend/trace/trace.h"
#include "src/ir/rewrite/builder.h"
