// SPDX-License-Identifier: Apache-2.0
// Messages about bytecode: the byte, the operation, and the user's line.
#include "src/text/bytecode/places.h"

namespace tessera::text {

const BytecodePlaces::Operation* BytecodePlaces::operation_at(const char* where) const {
  if (!in_file(where)) return reading_ && !operations_.empty() ? &operations_.back() : nullptr;
  const Operation* found = nullptr;
  for (const Operation& o : operations_) {
    if (o.at <= where && (found == nullptr || o.at >= found->at)) found = &o;
  }
  return found;
}

std::string BytecodePlaces::placed(const char* where, const std::string& message) const {
  std::string out = message;
  if (const Operation* o = operation_at(where)) out = "in " + std::string(o->name) + ": " + out;
  if (in_file(where)) return file_.source.placed(where, out);
  const char* encoded = texts_.encoded_at(where);
  if (encoded == nullptr) return out;
  out = file_.source.placed(encoded, out);
  // The text of the attribute with a mark below, cut to what a terminal shows.
  constexpr std::ptrdiff_t kBefore = 60, kAfter = 40;
  const std::string_view all = texts_.all();
  const char *begin = where, *end = where;
  while (begin > all.data() && begin[-1] != '\n' && where - begin < kBefore) --begin;
  while (end < all.data() + all.size() && *end != '\n' && end - where < kAfter) ++end;
  if (end > begin && end < all.data() + all.size() && end[-1] == ';' && *end == '\n') --end;
  return out + "\n  " + std::string(begin, end) + "\n  " +
         std::string(std::size_t(where - begin), ' ') + "^";
}

Location BytecodePlaces::location_at(const char* where) const {
  const Operation* o = operation_at(where);
  if (o == nullptr) return {};
  const ir::Metadata& m = *locations_.of(o->location);
  if (m.source_file.empty()) return {};
  return make_location(m.source_file, unsigned(m.source_line));
}

}  // namespace tessera::text
