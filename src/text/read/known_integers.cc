// SPDX-License-Identifier: Apache-2.0
// Goes from a value to those that it is computed from, and computes it as the evaluator does.
#include "src/text/read/known_integers.h"

#include <utility>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/analysis/equivalence.h"
#include "src/ir/module.h"

namespace tessera::text {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr std::int64_t kMostElements = 1 << 16;
/// Operations that are followed one behind the other.
constexpr int kMostDepth = 1 << 9;

bool may_be_known(const Shape& shape) {
  return shape.is_array() && (is_integer(shape.dtype) || shape.dtype == DType::pred) &&
         shape.element_count() <= kMostElements;
}

}  // namespace

class KnownIntegers::Evaluation {
 public:
  explicit Evaluation(KnownIntegers& known) : known_(known) {}

  const Entry& of(const Instruction& i) {
    const auto there = known_.entries_.find(&i);
    if (there != known_.entries_.end()) return there->second;
    Entry out;
    if (depth_ < kMostDepth && may_be_known(i.shape)) {
      ++depth_;
      bool given = false;
      std::swap(given, given_);
      out.value = computed(i);
      out.given = given_ && out.value.has_value();
      given_ = given;
      --depth_;
    }
    return known_.entries_.emplace(&i, std::move(out)).first->second;
  }

 private:
  using Value = std::optional<Literal>;

  /// An operand, or what stands for it.
  Value get(const Instruction& i) {
    const Entry& e = of(i);
    given_ = given_ || e.given;
    return e.value;
  }

  Value computed(const Instruction& i) {
    switch (i.opcode) {
      case Opcode::parameter:
        return std::nullopt;
      case Opcode::constant:
        return i.get<ir::ConstantAttrs>().value;
      case Opcode::get_dimension_size:
        return Literal::scalar(i.shape.dtype,
                               i.operand(0)->shape.dim(i.get<ir::DimensionsAttrs>().dims.at(0)));
      case Opcode::get_tuple_element:
        return element(*i.operand(0), std::size_t(i.get<ir::GetTupleElementAttrs>().index));
      case Opcode::call:
        return i.called(0)->root() == nullptr ? std::nullopt : get(*i.called(0)->root());
      default:
        return ir::is_pure(i) ? evaluated(i) : std::nullopt;
    }
  }

  Value evaluated(const Instruction& i) {
    std::vector<Literal> operands;
    for (const Instruction* o : i.operands()) {
      Value x = get(*o);
      if (!x) return x;
      operands.push_back(*std::move(x));
    }
    try {
      return evaluator::evaluate_instruction(i, operands);
    } catch (const InternalError&) {
      throw;
    } catch (const Error&) {
      return std::nullopt;  // it depends on the device, say
    }
  }

  Value element(const Instruction& tuple, std::size_t index) {
    const Instruction* t = &tuple;
    for (int steps = 0; t != nullptr && steps < kMostDepth; ++steps) {
      if (t->is(Opcode::tuple)) return get(*t->operand(index));
      if (t->is(Opcode::call)) {
        t = t->called(0)->root();
      } else if (t->is(Opcode::opt_barrier)) {
        t = t->operand(0);
      } else {
        break;
      }
    }
    return std::nullopt;
  }

  KnownIntegers& known_;
  int depth_ = 0;
  bool given_ = false;  ///< what is being computed depends on what a function was given
};

std::optional<Dims> KnownIntegers::of(const Instruction& i) {
  const Entry& e = Evaluation(*this).of(i);
  uses_given_ = uses_given_ || e.given;
  if (!e.value) return std::nullopt;
  return to_vector<std::int64_t>(*e.value);
}

void KnownIntegers::note(const Instruction& i, const Shape& shape, const Dims& value, bool given) {
  entries_[&i] = {make_literal(shape.dtype, shape.dims, value), given};
}

}  // namespace tessera::text
