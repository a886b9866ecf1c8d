// SPDX-License-Identifier: Apache-2.0
// Passes in order, as text has them: what stages of the compiler and `tessera opt` run.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/compiler/pass_table.h"

namespace tessera::compiler {

/// `a,b<8>,c` runs passes and groups (all_groups) one after the other, b with the argument 8.
/// `repeat<4>(a,b)` goes through a and b until they change nothing, 4 times at most. `a?(b,c)` runs
/// b and c if a changed something; the condition may be a list, as in `(a,b)?(c)`.
class PassPipeline {
 public:
  PassPipeline() = default;
  /// ValueError that says what is wrong and where.
  static PassPipeline parse(std::string_view text);

  bool empty() const { return items_.empty(); }
  /// Returns how much changed; nothing if a pass that ran doesn't count that. `verify`: check the
  /// module after each pass. ValueError if the text asks whether a pass that doesn't count changed
  /// something.
  std::optional<std::size_t> run(ModulePtr& module, bool verify) const;

 private:
  struct Item {
    std::string text;              ///< for messages
    std::optional<PassCall> pass;  ///< else `body`
    std::vector<Item> body;
    std::int64_t rounds = 1;
    std::vector<Item> then;  ///< run if it changed something
  };
  class Parser;

  static std::optional<std::size_t> run(const std::vector<Item>& items, ModulePtr& module,
                                        bool verify);

  std::vector<Item> items_;
};

}  // namespace tessera::compiler
