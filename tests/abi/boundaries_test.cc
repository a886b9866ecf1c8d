// SPDX-License-Identifier: Apache-2.0
// Errors, casts and objects go through a program, a module that it loads and libtessera.so, all
// with hidden symbols, and are the same on each side.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/abi/module.h"

namespace tessera {
namespace {

void* loaded() {
  static void* const module = dlopen(TESSERA_ABI_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) ADD_FAILURE() << dlerror();
  return module;
}
#define OF_MODULE(name) reinterpret_cast<decltype(&::name)>(dlsym(loaded(), #name))

class OwnError : public ValueError {
 public:
  using ValueError::ValueError;
};

TEST(Boundaries, AnErrorOfTheLibraryGoesThroughAModule) {
  const Array x = ones({6});
  EXPECT_THROW(OF_MODULE(module_fails_in_library)(x), ShapeError);
  try {
    OF_MODULE(module_fails_in_library)(x);
  } catch (const Error& e) {
    EXPECT_NE(dynamic_cast<const ValueError*>(&e), nullptr);
    EXPECT_EQ(dynamic_cast<const TypeError*>(&e), nullptr);
    EXPECT_NE(std::string(e.location().file).find("module.cc"), std::string::npos);
  }
}

TEST(Boundaries, AModulesOwnErrorIsCaughtAsItsBase) {
  try {
    OF_MODULE(module_throws_its_own)();
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_NE(dynamic_cast<const ShapeError*>(&e), nullptr);
    EXPECT_STREQ(e.what(), "of the module");
  }
  // Through frames of the library: while it traces, and while it computes.
  const auto traced = jit([](Array x) {
    OF_MODULE(module_throws_its_own)();
    return x;
  });
  EXPECT_THROW((void)traced(ones({2})), ShapeError);
  const auto calls = jit([](Array x) {
    return pure_callback(
        [](Array a) {
          OF_MODULE(module_throws_its_own)();
          return a;
        },
        shape_dtype_struct({2}, DType::f32), x);
  });
  EXPECT_THROW((void)calls(ones({2})), ShapeError);
}

TEST(Boundaries, AModuleCatchesErrorsOfTheProgram) {
  const auto catches = OF_MODULE(module_catches);
  EXPECT_STREQ(catches([] { throw IndivisibleError("7 by 2"); }), "IndivisibleError");
  EXPECT_STREQ(catches([] { throw DuplicateSpecError("x twice"); }), "a ShardingError");
  EXPECT_STREQ(catches([] { throw OwnError("own"); }), "ValueError");
  EXPECT_STREQ(catches([] { throw IoError("no file"); }), "Error");
  EXPECT_STREQ(catches([] { (void)ones({3}).item<float>(); }), "ValueError");
  EXPECT_STREQ(catches([] {}), "nothing");
}

TEST(Boundaries, ArraysAndShardingsAreShared) {
  const Mesh mesh = make_mesh({{"x", 2}});
  const Sharding sharding = OF_MODULE(module_sharding)(mesh);
  EXPECT_EQ(sharding, Sharding(NamedSharding(mesh, P("x"))));
  const Array x = device_put(arange(4) * 1.0f, sharding);
  const Array y = OF_MODULE(module_computes)(x);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 2, 4, 6}));
}

}  // namespace
}  // namespace tessera
