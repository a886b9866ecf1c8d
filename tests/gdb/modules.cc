// SPDX-License-Identifier: Apache-2.0
// Objects of the compiler's types, for run.sh to look at in gdb. Linked from the layers' objects.
#include "src/ir/hlo/hlo_text.h"

namespace {

using namespace tessera;

__attribute__((noinline)) void look(const ir::Module* module, const ir::Instruction* instruction,
                                    const Shape& shape, const TensorSharding& sharding) {
  asm volatile("" : : "r"(module), "r"(instruction), "r"(&shape), "r"(&sharding) : "memory");
}

}  // namespace

int main() {
  const auto module = ir::parse_hlo(R"(HloModule looked_at, num_partitions=4

ENTRY main {
  x = f32[8,16]{1,0} parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT y = f32[8,16]{1,0} negate(x), sharding={devices=[4,1]<=[4]}
})");
  const ir::Instruction* root = module->entry()->root();
  look(module.get(), root, root->shape, root->sharding.at(0));
}
