// SPDX-License-Identifier: Apache-2.0
// StableHLO as text.
#pragma once

#include "src/text/write/sink.h"

namespace tessera::text {

class TextSink final : public Sink {
 public:
  /// `size`: how long the text may get, about. `locations`: whether ops end with theirs.
  TextSink(std::size_t size, bool locations) : locations_(locations) { out_.reserve(size); }

  bool has_short_forms() const override { return true; }
  void module(std::string_view name, const Entries& attributes) override;
  void mesh(std::string_view symbol, std::string_view mesh) override;
  Values function(const FunctionHead& head) override;
  void end_function(const Values& returned) override;
  Values op(const Op& op, const ir::Metadata& metadata) override;
  Values region(const Types& arguments) override;
  void end_region(std::string_view terminator, const Values& returned) override;
  std::string finish() override;

 private:
  /// An op whose regions are being written.
  struct Open {
    Form form;
    int regions = 0;
    Values carried = {};  ///< the arguments that a loop's regions share
  };

  void line() { out_.append(indent_ * 2, ' '); }
  void value(const Value& v);
  void values(const Values& list);
  template <class List>
  void types(const List& list);
  /// `: (a, b) -> c`
  void signature(const Values& operands, const Types& results);
  /// `%4:2 = `
  Values results(const Types& types);
  Values arguments(const Types& types);
  void bound_arguments(const Values& list, const std::vector<Entries>& attributes = {});
  /// ` {a = 1, b}` sorted by key; nothing if there are none.
  void dictionary(Entries entries);
  void location(const ir::Metadata& m);
  void generic(const Op& op);
  void short_form(const Op& op);
  void types_of(const Op& op);
  void constant(const Op& op);
  void reduce(const Op& op);
  void loop(const Op& op);
  void per_device(const Op& op);
  void regions(const Op& op, Open open);

  bool locations_;
  std::string out_;
  std::size_t indent_ = 1;
  std::int32_t next_value_ = 0, next_argument_ = 0;
  std::vector<Open> open_;
};

}  // namespace tessera::text
