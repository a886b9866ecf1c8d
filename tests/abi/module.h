// SPDX-License-Identifier: Apache-2.0
// What the module of boundaries_test.cc has.
#pragma once

#include <tessera/tessera.h>

extern "C" {
void module_fails_in_library(const tessera::Array& x);
void module_throws_its_own();
const char* module_catches(void (*f)());
}
#pragma GCC diagnostic push
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wreturn-type-c-linkage"
#endif
extern "C" {
tessera::Array module_computes(const tessera::Array& x);
tessera::Sharding module_sharding(const tessera::Mesh& mesh);
}
#pragma GCC diagnostic pop
