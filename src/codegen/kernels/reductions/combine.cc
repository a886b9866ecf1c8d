// SPDX-License-Identifier: Apache-2.0
// Combining by one op, or by a loop.
#include "src/codegen/kernels/reductions/combine.h"

#include <memory>

#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

struct CombineAttrs {
  BlockFunction op = nullptr;
  std::shared_ptr<const FusedLoop> program;
};

void combine_op(const void* attributes, std::byte* into, const std::byte* value,
                std::int64_t count) {
  const std::byte* in[] = {into, value};
  static_cast<const CombineAttrs*>(attributes)->op({nullptr, into, in, 0, count});
}

void combine_program(const void* attributes, std::byte* into, const std::byte* value,
                     std::int64_t count) {
  const std::byte* in[] = {into, value};
  std::byte* out[] = {into};
  static_cast<const CombineAttrs*>(attributes)->program->run(in, out, 0, count);
}

}  // namespace

BlockFunction single_op(const ir::Computation& reducer, DType held) {
  const auto op = ir::as_binary_reducer(reducer);
  return op ? binary_block(*op, held) : nullptr;
}

DType held_type(DType t) { return t == DType::f16 || t == DType::bf16 ? DType::f32 : t; }

CombineDescriptor combine_function(const ir::Computation& reducer) {
  const DType t = reducer.parameters().at(0)->shape.dtype;
  if (const BlockFunction op = held_type(t) == t ? single_op(reducer, t) : nullptr) {
    return {kernel_key("combine", t, *ir::as_binary_reducer(reducer)), [op] {
              return runtime::Combiner{
                  combine_op, std::make_shared<const CombineAttrs>(CombineAttrs{op, nullptr})};
            }};
  }
  std::shared_ptr<const LoopExpr> program = program_of(reducer);
  if (!program) return {};
  return {kernel_key("combine-by", program->key()), [program] {
            return runtime::Combiner{
                combine_program,
                std::make_shared<const CombineAttrs>(CombineAttrs{nullptr, make_loop(program)})};
          }};
}

}  // namespace tessera::codegen
