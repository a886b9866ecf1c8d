// SPDX-License-Identifier: Apache-2.0
// What clients of the plugin send as bytes: options, shardings, stored programs and topologies. The
// first byte says which it is. Nothing may be thrown but what the API has errors for, and what is
// read is written and read back as the same.
#include <memory>

#include "src/pjrt/compile_options.h"
#include "src/pjrt/op_sharding.h"
#include "src/pjrt/stored_program.h"
#include "src/pjrt/stored_topology.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace tessera;

/// As fuzz::accepts; a Failure is one of the API's errors.
template <class F>
bool reads(F&& f) {
  try {
    return fuzz::accepts(f);
  } catch (const pjrt::Failure& e) {
    if (e.code == PJRT_Error_Code_INTERNAL) fuzz::broken("internal error", e);
    return false;
  }
}

void options(std::string_view bytes) {
  pjrt::CompileOptions o;
  // Without devices they are the first ones, which a client fills in.
  if (!reads([&] { o = pjrt::read_compile_options(bytes); }) || o.devices.empty()) return;
  fuzz::must("an assignment that was read can't be written",
             [&] { pjrt::write_device_assignment(o.replicas, o.partitions, o.devices); });
}

void sharding(std::string_view bytes) {
  std::vector<Tiling> parts;
  if (!reads([&] { parts = pjrt::read_op_sharding(bytes); }) || parts.size() != 1) return;
  fuzz::must("a sharding that is written is refused", [&] {
    const std::string written = pjrt::write_op_sharding(parts[0]);
    const std::vector<Tiling> again = pjrt::read_op_sharding(written);
    fuzz::same_text(parts[0].to_string(), again.at(0).to_string(), "a sharding");
  });
}

void program(std::string_view bytes) {
  pjrt::StoredProgram p;
  if (!reads([&] { p = pjrt::read_stored_program(bytes); })) return;
  fuzz::same_text(std::string(bytes), pjrt::write_stored_program(p), "a stored program");
}

void topology(std::string_view bytes) {
  pjrt::StoredTopology t;
  if (!reads([&] { t = pjrt::read_stored_topology(bytes); })) return;
  fuzz::same_text(std::string(bytes), pjrt::write_stored_topology(t), "a stored topology");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // A copy of just these bytes, so that none behind them is read unnoticed.
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      options(bytes);
      break;
    case 1:
      sharding(bytes);
      break;
    case 2:
      program(bytes);
      break;
    case 3:
      // With the checksum that belongs to it: else little is read.
      program(pjrt::with_checksum(bytes));
      break;
    case 4:
      topology(bytes);
      break;
    default:
      topology(pjrt::with_topology_checksum(bytes));
      break;
  }
  return 0;
}
