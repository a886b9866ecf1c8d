// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files: what is accepted is written and read back to the same arrays.
#include "src/base/files/safetensors.h"

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  SafetensorsHeader read;
  if (!fuzz::accepts([&] { read = parse_safetensors_header(bytes, size, "input"); })) return 0;
  std::vector<SafetensorsEntry> entries = read.entries;
  std::uint64_t end = read.data_begin;
  for (const SafetensorsEntry& e : entries) {
    if (e.begin != end || e.bytes > size - end) {
      fuzz::broken("an array outside of the file", RuntimeError(e.name));
    }
    end += e.bytes;
  }
  fuzz::must("a header that was read is refused", [&] {
    const std::string header = safetensors_header(&entries, read.metadata, "written");
    std::uint64_t file_bytes = header.size();
    for (const SafetensorsEntry& e : entries) file_bytes += e.bytes;
    const SafetensorsHeader again = parse_safetensors_header(header, file_bytes, "written");
    if (again.metadata != read.metadata || again.entries.size() != entries.size()) {
      throw RuntimeError("arrays or texts are lost");
    }
  });
  return 0;
}
