// SPDX-License-Identifier: Apache-2.0
// loc(...): the user's file and line, and the path of the operation.
#include "src/text/read/reader.h"

namespace tessera::text {
namespace {

constexpr int kMaxLocationDepth = 64;

void fill(ir::Metadata* to, const ir::Metadata& from) {
  if (to->op_name.empty()) to->op_name = from.op_name;
  if (to->source_file.empty()) {
    to->source_file = from.source_file;
    to->source_line = from.source_line;
  }
}

}  // namespace

const Cow<ir::Metadata>& InstructionBuilder::metadata_of(std::string_view location) {
  static const Cow<ir::Metadata> none;
  if (location.empty()) return none;
  // Operations in a row often come from one line.
  if (last_location_ != nullptr && last_location_->first.data() == location.data()) {
    return last_location_->second;
  }
  auto it = locations_.find(location);
  if (it != locations_.end()) {
    last_location_ = &*it;
    return it->second;
  }
  const char* back = in_.position();
  in_.seek(location.data());
  in_.expect('(', "after loc");
  Cow<ir::Metadata> m(parse_location(0));
  in_.seek(back);
  return locations_.emplace(location, std::move(m)).first->second;
}

ir::Metadata InstructionBuilder::parse_location(int depth) {
  ir::Metadata m;
  in_.skip();
  const char* at = in_.position();
  if (depth > kMaxLocationDepth) in_.fail_at(at, "locations nest deeper than 64");
  if (in_.accept('#')) {
    std::string_view name = in_.suffix("the name of a location");
    auto it = attribute_aliases_.find(name);
    if (it == attribute_aliases_.end()) {
      in_.fail_at(at, "location #" + std::string(name) + " is not defined");
    }
    const char* back = in_.position();
    if (auto known = locations_.find(it->second); known != locations_.end()) return *known->second;
    locations_[it->second];  // a location that names itself is unknown
    in_.seek(it->second.data());
    in_.expect_word("loc", "in the definition of a location");
    in_.expect('(', "after loc");
    m = parse_location(depth + 1);
    in_.seek(back);
    locations_[it->second] = Cow<ir::Metadata>(m);
    return m;
  }
  if (in_.peek() == '"') {
    std::string text = in_.string("a file or a name");
    if (in_.accept(':')) {
      m.source_file = std::move(text);
      m.source_line = in_.integer("a line");
      if (in_.accept(':')) in_.integer("a column");
      if (in_.accept_word("to")) {
        if (in_.peek() != ':') in_.integer("a line");
        if (in_.accept(':')) in_.integer("a column");
      }
      return m;
    }
    m.op_name = std::move(text);
    if (in_.accept('(')) {
      ir::Metadata inner = parse_location(depth + 1);
      in_.expect(')', "after a location");
      inner.op_name.clear();
      fill(&m, inner);
    }
    return m;
  }
  std::string_view word = in_.word("a location");
  if (word == "unknown") return m;
  if (word == "callsite") {
    in_.expect('(', "after callsite");
    fill(&m, parse_location(depth + 1));
    in_.expect_word("at", "between callee and caller");
    fill(&m, parse_location(depth + 1));
    in_.expect(')', "after a call site");
    return m;
  }
  if (word == "fused") {
    if (in_.peek() == '<') in_.balanced();
    in_.expect('[', "after fused");
    if (in_.accept(']')) return m;
    do {
      fill(&m, parse_location(depth + 1));
    } while (in_.accept(','));
    in_.expect(']', "after the fused locations");
    return m;
  }
  in_.fail_at(at, "unknown location '" + std::string(word) +
                      "'; valid: \"file\":line:column, \"name\"(...), callsite(... at ...), "
                      "fused[...], unknown");
}

}  // namespace tessera::text
