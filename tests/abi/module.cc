// SPDX-License-Identifier: Apache-2.0
// A module with hidden symbols, as a user's plugin would be; boundaries_test.cc loads it.
#include "tests/abi/module.h"

namespace {

class ModuleError : public tessera::ShapeError {
 public:
  using ShapeError::ShapeError;
};

tessera::Array doubled(const tessera::Array& x) { return x * 2.0f; }

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void module_fails_in_library(const tessera::Array& x) { (void)tessera::reshape(x, {5}); }
EXPORTED void module_throws_its_own() { throw ModuleError("of the module"); }
EXPORTED const char* module_catches(void (*f)()) {
  try {
    f();
  } catch (const tessera::IndivisibleError&) {
    return "IndivisibleError";
  } catch (const tessera::ValueError& e) {
    return dynamic_cast<const tessera::ShardingError*>(&e) != nullptr ? "a ShardingError"
                                                                      : "ValueError";
  } catch (const tessera::Error&) {
    return "Error";
  }
  return "nothing";
}
EXPORTED tessera::Array module_computes(const tessera::Array& x) {
  return tessera::jit(doubled)(x);
}
EXPORTED tessera::Sharding module_sharding(const tessera::Mesh& mesh) {
  return tessera::NamedSharding(mesh, tessera::P("x"));
}
