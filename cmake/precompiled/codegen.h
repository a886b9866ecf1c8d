// SPDX-License-Identifier: Apache-2.0
// Precompiled for the layer that makes kernels, whose flags differ from the other layers'.
#pragma once

#include "cmake/precompiled/ir.h"
#include "src/runtime/plan.h"
