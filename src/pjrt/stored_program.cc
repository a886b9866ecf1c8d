// SPDX-License-Identifier: Apache-2.0
// The format of stored programs: a line with its version, a checksum, and numbers and texts in a
// fixed order.
#include "src/pjrt/stored_program.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "src/pjrt/dtypes.h"
#include "src/pjrt/status.h"

namespace tessera::pjrt {
namespace {

constexpr std::string_view kMagic = "TESSERA-PROGRAM-4\n";

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t number() {
    std::uint64_t out = 0;
    std::memcpy(&out, take(sizeof out).data(), sizeof out);
    return out;
  }
  /// At most `most`.
  std::uint64_t number(std::uint64_t most, const char* what) {
    const std::uint64_t out = number();
    if (out > most) {
      throw Failure(PJRT_Error_Code_DATA_LOSS, "a stored program has " + std::string(what) + " " +
                                                   std::to_string(out) + "; valid: up to " +
                                                   std::to_string(most));
    }
    return out;
  }
  std::string text() {
    const std::uint64_t size = number();
    return std::string(take(size));
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view take(std::uint64_t n) {
    if (n > rest_.size()) {
      throw Failure(PJRT_Error_Code_DATA_LOSS, "a stored program ends too early");
    }
    const std::string_view out = rest_.substr(0, std::size_t(n));
    rest_.remove_prefix(std::size_t(n));
    return out;
  }

  std::string_view rest_;
};

void put(std::string* out, std::uint64_t n) {
  out->append(reinterpret_cast<const char*>(&n), sizeof n);
}

void put(std::string* out, const std::string& text) {
  put(out, text.size());
  *out += text;
}

void put(std::string* out, const std::vector<StoredProgram::Value>& values) {
  put(out, values.size());
  for (const StoredProgram::Value& v : values) {
    put(out, primitive_type(v.shard.dtype));
    put(out, v.shard.dims.size());
    for (const std::int64_t d : v.shard.dims) put(out, std::uint64_t(d));
    put(out, v.shard.layout.size());
    for (const std::int64_t d : v.shard.layout) put(out, std::uint64_t(d));
    put(out, std::uint64_t(v.memory));
    put(out, std::uint64_t(v.donated));
    put(out, v.sharding);
  }
}

void check_order(const Shape& shape) {
  Dims sorted = shape.layout;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() == shape.dims.size() && is_identity_order(sorted)) return;
  throw Failure(
      PJRT_Error_Code_DATA_LOSS,
      "a stored program has a layout that is no order of the dims of " + shape.to_string());
}

std::vector<StoredProgram::Value> values(Reader& in) {
  // A value takes more bytes than one: memory isn't taken for what isn't there.
  std::vector<StoredProgram::Value> out;
  for (std::uint64_t n = in.number(); n > 0; --n) {
    StoredProgram::Value v;
    const std::optional<DType> dtype =
        dtype_of_primitive(std::uint32_t(in.number(255, "an element type")));
    if (!dtype) {
      throw Failure(PJRT_Error_Code_DATA_LOSS,
                    "a stored program has an element type that doesn't exist");
    }
    v.shard.dtype = *dtype;
    for (std::uint64_t rank = in.number(); rank > 0; --rank) {
      v.shard.dims.push_back(std::int64_t(in.number(std::uint64_t(1) << 62, "a dim of the size")));
    }
    for (std::uint64_t rank = in.number(v.shard.dims.size(), "a layout of the size"); rank > 0;
         --rank) {
      v.shard.layout.push_back(std::int64_t(in.number(v.shard.dims.size(), "a dim in a layout")));
    }
    if (!v.shard.layout.empty()) check_order(v.shard);
    v.memory = MemoryKind(in.number(std::uint64_t(kMemoryKinds) - 1, "a kind of memory"));
    v.donated = in.number(1, "a flag") != 0;
    v.sharding = in.text();
    out.push_back(std::move(v));
  }
  return out;
}

}  // namespace

std::string_view program_format() { return kMagic.substr(0, kMagic.size() - 1); }

std::string with_checksum(std::string_view body) {
  std::string out(kMagic);
  put(&out, XXH3_64bits(body.data(), body.size()));
  return out.append(body);
}

std::string write_stored_program(const StoredProgram& program) {
  std::string body;
  put(&body, program.option_bytes);
  put(&body, program.source);
  put(&body, program.name);
  put(&body, program.device_program);
  put(&body, program.parameters);
  put(&body, program.results);
  return with_checksum(body);
}

StoredProgram read_stored_program(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) {
    throw Failure(PJRT_Error_Code_FAILED_PRECONDITION,
                  "this is no program that this version of Tessera stored");
  }
  bytes.remove_prefix(kMagic.size());
  const std::uint64_t checksum = Reader(bytes).number();
  bytes.remove_prefix(sizeof checksum);
  if (checksum != XXH3_64bits(bytes.data(), bytes.size())) {
    throw Failure(PJRT_Error_Code_DATA_LOSS, "a stored program is damaged");
  }
  Reader in(bytes);
  StoredProgram out;
  out.option_bytes = in.text();
  out.source = in.text();
  out.name = in.text();
  out.device_program = in.text();
  out.parameters = values(in);
  out.results = values(in);
  if (!in.at_end()) {
    throw Failure(PJRT_Error_Code_DATA_LOSS, "a stored program goes on behind its end");
  }
  return out;
}

}  // namespace tessera::pjrt
