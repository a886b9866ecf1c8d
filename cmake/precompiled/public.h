// SPDX-License-Identifier: Apache-2.0
// Precompiled for examples and the programs of the documents: exactly the public header.
#pragma once

#include <tessera/tessera.h>
