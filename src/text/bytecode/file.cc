// SPDX-License-Identifier: Apache-2.0
// Finds the sections of an MLIR bytecode file and reads its tables.
#include "src/text/bytecode/file.h"

#include <array>
#include <optional>

#include "src/text/bytecode/bytecode.h"
#include "src/text/bytecode/sections.h"

namespace tessera::text {
namespace {

using S = BytecodeSection;

constexpr std::pair<std::string_view, BytecodeDialect> kDialectNames[] = {
    {"builtin", BytecodeDialect::builtin},
    {"vhlo", BytecodeDialect::vhlo},
    {"stablehlo", BytecodeDialect::stablehlo},
    {"chlo", BytecodeDialect::chlo},
    {"sdy", BytecodeDialect::sdy},
    {"quant", BytecodeDialect::quant}};

BytecodeDialect dialect_named(std::string_view name) {
  for (const auto& [known, kind] : kDialectNames) {
    if (known == name) return kind;
  }
  return BytecodeDialect::unknown;
}

}  // namespace

bool is_bytecode(std::string_view bytes) { return bytes.starts_with("ML\xefR"); }

BytecodeFile::BytecodeFile(std::string_view bytes, const std::string& file) : source{bytes, file} {
  ByteReader in(source, bytes);
  if (!is_bytecode(bytes)) in.fail("this is no MLIR bytecode: it doesn't begin with 'ML\\xefR'");
  in.bytes(4);
  const char* at = in.position();
  version = in.varint();
  if (version > kNewest) {
    in.fail_at(at, "version " + std::to_string(version) +
                       " of MLIR's bytecode isn't supported; valid: 0 to " +
                       std::to_string(kNewest));
  }
  producer = in.terminated();
  std::array<std::optional<std::string_view>, S::kSections> sections;
  while (!in.empty()) {
    at = in.position();
    std::uint8_t id = 0;
    const std::string_view data = in.section(&id);
    if (id >= S::kSections || id == S::kDialectVersion) {
      in.fail_at(at, "there is no section number " + std::to_string(id) + ": the file is damaged");
    }
    if (sections[id]) {
      in.fail_at(at, std::string("the section of ") + kSectionNames[id] + " stands twice");
    }
    sections[id] = data;
    source.sections.push_back({data.data(), data.data() + data.size(), kSectionNames[id]});
  }
  for (S::Id s : {S::kStrings, S::kDialects, S::kEntries, S::kEntryOffsets, S::kIr}) {
    if (sections[s]) continue;
    in.fail(std::string("the section of ") + kSectionNames[s] +
            " is missing: the file is cut off or damaged");
  }
  read_strings({source, *sections[S::kStrings]});
  if (sections[S::kPropertyTable]) read_properties({source, *sections[S::kPropertyTable]});
  read_dialects({source, *sections[S::kDialects]});
  if (sections[S::kResourceOffsets]) {
    read_resources({source, *sections[S::kResourceOffsets]},
                   sections[S::kResources].value_or(std::string_view(in.position(), 0)));
  }
  read_entries({source, *sections[S::kEntryOffsets]}, *sections[S::kEntries]);
  ir = *sections[S::kIr];
}

// Their lengths from the last one to the first, then the strings themselves, each with a zero.
void BytecodeFile::read_strings(ByteReader in) {
  const std::size_t n = in.count("strings");
  std::vector<std::uint64_t> sizes(n);
  std::uint64_t total = 0;
  for (std::size_t i = n; i-- > 0;) {
    const char* at = in.position();
    sizes[i] = in.varint();
    if (sizes[i] == 0 || sizes[i] > in.left()) {
      in.fail_at(at, "a string of " + std::to_string(sizes[i]) + " bytes: the file is damaged");
    }
    total += sizes[i];
  }
  if (total != in.left()) {
    in.fail("strings of " + std::to_string(total) + " bytes in " + std::to_string(in.left()) +
            ": the file is damaged");
  }
  strings.reserve(n);
  for (std::uint64_t size : sizes) {
    const std::string_view text = in.bytes(size);
    strings.push_back(text.substr(0, text.size() - 1));
  }
}

void BytecodeFile::read_dialects(ByteReader in) {
  const std::size_t n = in.count("dialects");
  for (std::size_t i = 0; i < n; ++i) {
    const char* at = in.position();
    bool versioned = false;
    const std::uint64_t name = version < kDialectVersions ? in.varint() : in.flagged(&versioned);
    const std::string_view text = strings[in.checked_index(name, strings.size(), at, "string")];
    dialects.push_back({text, dialect_named(text)});
    if (!versioned) continue;
    // Entries say by their codes what of a version they need.
    at = in.position();
    std::uint8_t id = 0;
    in.section(&id);
    if (id != S::kDialectVersion)
      in.fail_at(at, "expected the version of dialect " + std::string(text));
  }
  if (version >= kElidedLocations) in.count("names of operations");
  while (!in.empty()) {
    const std::size_t dialect = in.index(dialects.size(), "dialect");
    const std::size_t names = in.count("names of operations");
    for (std::size_t i = 0; i < names; ++i) {
      const char* at = in.position();
      bool registered = true;
      const std::uint64_t name = version < kProperties ? in.varint() : in.flagged(&registered);
      operations.push_back(
          {dialect, strings[in.checked_index(name, strings.size(), at, "string")], registered});
    }
  }
}

void BytecodeFile::read_entries(ByteReader offsets, std::string_view data) {
  const std::size_t attribute_count = offsets.count("attributes");
  const std::size_t type_count = offsets.count("types");
  ByteReader entries(source, data);
  const auto read = [&](std::vector<Entry>* out, std::size_t n) {
    out->reserve(n);
    while (out->size() < n) {
      const std::size_t dialect = offsets.index(dialects.size(), "dialect");
      const char* at = offsets.position();
      const std::size_t group = offsets.count("attributes or types");
      if (group > n - out->size()) {
        offsets.fail_at(at, std::to_string(group) + " entries of a table with " +
                                std::to_string(n - out->size()) + " left: the file is damaged");
      }
      for (std::size_t i = 0; i < group; ++i) {
        bool custom = false;
        const std::uint64_t size = offsets.flagged(&custom);
        out->push_back({dialect, custom, entries.bytes(size)});
      }
    }
  };
  read(&attributes, attribute_count);
  read(&types, type_count);
}

void BytecodeFile::read_properties(ByteReader in) {
  const std::size_t n = in.count("properties");
  properties.reserve(n);
  for (std::size_t i = 0; i < n; ++i) properties.push_back(in.blob());
}

void BytecodeFile::read_resources(ByteReader offsets, std::string_view data) {
  ByteReader values(source, data);
  const auto group = [&](bool of_dialect) {
    const std::size_t n = offsets.count("resources");
    for (std::size_t i = 0; i < n; ++i) {
      Resource r;
      r.key = strings[offsets.index(strings.size(), "string")];
      const std::uint64_t size = offsets.varint();
      r.kind = offsets.byte();
      r.data = values.bytes(size);
      if (of_dialect) resources.push_back(r);
    }
  };
  const std::size_t external = offsets.count("groups of resources");
  for (std::size_t i = 0; i < external; ++i) {
    offsets.index(strings.size(), "string");
    group(false);
  }
  while (!offsets.empty()) {
    offsets.index(dialects.size(), "dialect");
    group(true);
  }
}

}  // namespace tessera::text
