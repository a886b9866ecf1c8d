// SPDX-License-Identifier: Apache-2.0
// Why data moves: an argument of all that emits collectives, for the report.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "src/base/arrays/shape.h"
#include "src/ir/module.h"
#include "src/sharding/axes/tensor_sharding.h"

namespace tessera::spmd {

struct ReshardReason {
  /// An array of the source program that is resharded.
  struct Array {
    const ir::Instruction* value = nullptr;
    std::size_t leaf = 0;
    Shape shape;  ///< global
    TensorSharding from, to;
  };

  ReshardReason(std::string text_) : text(std::move(text_)) {}  // NOLINT: a text is a reason
  ReshardReason(const char* text_) : text(text_) {}             // NOLINT

  static ReshardReason between(const TensorSharding& from, const TensorSharding& to,
                               std::string text) {
    ReshardReason reason(std::move(text));
    reason.from = from.to_spec_string();
    reason.to = to.to_spec_string();
    return reason;
  }
  /// Rows change devices, and the layout stays.
  static ReshardReason within(const TensorSharding& layout, std::string text) {
    ReshardReason reason = between(layout, layout, std::move(text));
    reason.layout = layout;
    return reason;
  }

  std::string text;                      ///< "operand 1 of dot"
  std::string from, to;                  ///< specs; empty in code that the user wrote per device
  bool full_gather = false;              ///< devices get all of an array without need
  std::optional<TensorSharding> layout;  ///< that stays
  std::optional<Array> array;            ///< only where the report has all records
};

}  // namespace tessera::spmd
