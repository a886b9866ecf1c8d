// SPDX-License-Identifier: Apache-2.0
// Numbers strings, entries and names, and writes them as sections.
#include "src/text/bytecode/tables.h"

#include "src/text/bytecode/sections.h"

namespace tessera::text {
namespace {

constexpr std::uint64_t kVersion = 6;

/// Runs of entries of one dialect: the dialect, how many, and what `item` writes for each.
template <class F>
void write_runs(const std::deque<std::string>& all, ByteWriter& out, F&& item) {
  for (std::size_t n = 0; n < all.size();) {
    std::size_t end = n;
    while (end < all.size() && all[end][0] == all[n][0]) ++end;
    out.varint(static_cast<unsigned char>(all[n][0]));
    out.varint(end - n);
    for (; n < end; ++n) item(all[n]);
  }
}

}  // namespace

std::uint32_t NumberedBytes::add(std::string key) {
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  const auto number = std::uint32_t(keys_.size());
  known_.emplace(keys_.emplace_back(std::move(key)), number);
  return number;
}

std::uint32_t BytecodeTables::entry(NumberedBytes* table, std::string_view of, bool custom,
                                    std::string_view bytes) {
  std::string key;
  key.reserve(bytes.size() + 3);
  key += char(dialect(of));
  key += custom ? '\1' : '\0';
  key += bytes;
  if (!custom) key += '\0';  // texts end with one
  return table->add(std::move(key));
}

std::uint32_t BytecodeTables::operation(std::string_view of, std::string_view name) {
  std::string key(1, char(dialect(of)));
  key += name;
  string(name);
  return operations_.add(std::move(key));
}

std::string BytecodeTables::dialect_section() {
  ByteWriter out;
  out.varint(dialects_.size());
  for (const std::string& name : dialects_.all()) out.flagged(string(name), false);
  out.varint(operations_.size());
  write_runs(operations_.all(), out, [&](const std::string& key) {
    constexpr bool registered = true;
    out.flagged(string(std::string_view(key).substr(1)), registered);
  });
  return out.take();
}

std::string BytecodeTables::string_section() const {
  ByteWriter out;
  const std::deque<std::string>& all = strings_.all();
  out.varint(all.size());
  for (std::size_t n = all.size(); n-- > 0;) out.varint(all[n].size() + 1);
  for (const std::string& s : all) {
    out.append(s);
    out.byte(0);
  }
  return out.take();
}

std::string BytecodeTables::file(std::string_view producer, std::string_view operations) {
  ByteWriter out, offsets, properties;
  std::string entries;
  offsets.varint(attributes_.size());
  offsets.varint(types_.size());
  for (const NumberedBytes* table : {&attributes_, &types_}) {
    write_runs(table->all(), offsets, [&](const std::string& key) {
      offsets.flagged(key.size() - 2, key[1] != 0);
      entries.append(key, 2);
    });
  }
  properties.varint(properties_.size());
  for (const std::string& p : properties_.all()) properties.blob(p);

  out.append("ML\xefR");
  out.varint(kVersion);
  out.append(producer);
  out.byte(0);
  out.section(BytecodeSection::kDialects, dialect_section());
  out.section(BytecodeSection::kEntryOffsets, offsets.bytes());
  out.section(BytecodeSection::kEntries, entries);
  out.section(BytecodeSection::kIr, operations);
  out.section(BytecodeSection::kStrings, string_section());
  out.section(BytecodeSection::kPropertyTable, properties.bytes());
  return out.take();
}

}  // namespace tessera::text
