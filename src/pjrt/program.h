// SPDX-License-Identifier: Apache-2.0
// Programs that clients compile: what is known of them, and what runs them.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/pjrt/compile_options.h"
#include "src/pjrt/memory_layout.h"
#include "src/pjrt/objects.h"

namespace tessera::pjrt {

/// A compiled program. Both handles of the API share it.
struct Program {
  /// Of a program that was compiled without a client: one that has the topology's devices.
  std::shared_ptr<PJRT_Client> own_client;
  PJRT_Client* client = nullptr;
  std::string name, fingerprint;
  /// What it was made of, to be stored.
  std::string source, option_bytes;
  CompileOptions options;
  std::shared_ptr<const compiler::Executable> executable;
  /// Devices in the order of the program's, those of this process, and the number of each there.
  std::vector<PJRT_Device*> devices, addressable;
  std::vector<PJRT_LogicalDeviceIds> logical_ids;
  std::vector<std::size_t> places;
  /// Those of the client's queue that a run waits on.
  std::vector<std::size_t> lines;
  /// What a run is expected to take: an estimate before the first one, later what they took.
  mutable std::atomic<float> seconds = 0;
  /// Runs call functions of the host, which may take any time.
  bool calls_host = false;
  /// Python's are among these.
  bool calls_python = false;
  /// All else that a run does is small, by the measure that XLA has for it.
  bool few_flops = false;

  /// Of one device, as clients see them: with their layouts.
  std::vector<Shape> parameter_shards, result_shards;
  std::vector<MemoryKind> parameter_memory, result_memory;
  /// Parameters whose memory a result takes: they are the program's own once it runs.
  std::vector<bool> donated;

  // As the API hands them out.
  std::vector<std::uint32_t> result_types;
  std::vector<std::int64_t> result_dims;
  std::vector<std::size_t> result_ranks;
  std::vector<const char*> result_kinds, parameter_kinds;
  std::vector<std::size_t> result_kind_sizes, parameter_kind_sizes;
  std::vector<std::string> parameter_shardings, result_shardings;
  std::vector<const char*> parameter_sharding_texts, result_sharding_texts;
  std::vector<std::size_t> parameter_sharding_sizes, result_sharding_sizes;
  std::vector<PJRT_Layouts_MemoryLayout*> parameter_layouts, result_layouts;
  /// Made when it is first asked for.
  std::mutex lock;
  std::string optimized;
  std::vector<PJRT_NamedValue> costs;
};

/// Reads, partitions and loads a program: StableHLO as text or bytecode, or HLO text.
std::shared_ptr<Program> compile_program(PJRT_Client& client, std::string_view source,
                                         std::string_view option_bytes);

/// One device's program, with what it was made of, a version and a checksum.
std::string serialize(const Program& program);
/// Without partitioning it again. A Failure for bytes that serialize of this version didn't write.
std::shared_ptr<Program> deserialize(PJRT_Client& client, std::string_view bytes);

}  // namespace tessera::pjrt

struct PJRT_Executable {
  std::shared_ptr<tessera::pjrt::Program> program;
};

struct PJRT_LoadedExecutable {
  std::shared_ptr<tessera::pjrt::Program> program;
  std::atomic<bool> deleted = false;
};
