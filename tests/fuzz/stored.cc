// SPDX-License-Identifier: Apache-2.0
// Stored programs: what any bytes behind a right head and checksum are read as. The first byte says
// which part they are: of an executable what follows its purpose (which names this build), of a
// function what stands before its executable. What is read is planned; it isn't run.
//
//   tessera_fuzz_stored --seeds=DIR FILE...   stores these modules, and a function, as seeds in DIR
#include <cstring>
#include <fstream>
#include <sstream>

#include <tessera/tessera.h>

#include "src/base/files/byte_stream.h"
#include "src/compiler/read_module.h"
#include "src/compiler/stored_executable.h"
#include "src/frontend/jit/stored_program.h"
#include "tests/fuzz/fuzz.h"

namespace tessera::fuzz {
namespace {

constexpr std::string_view kFunction = "f", kExecutable = "x";

std::string stored_module(const std::string& text) {
  const auto executable = compiler::compile(compiler::read_module(text, "seed"), {});
  return compiler::store_executable(*executable, {.code = false});
}

std::string stored_function() {
  const Mesh mesh = make_mesh({{"a", 2}, {"b", 2}});
  const Array x = device_put(ones({4, 8}), NamedSharding(mesh, P("a", "b")));
  const Array kept = arange(8, f32);
  const auto step = jit([kept](Array in, Array scale) {
    return std::pair{exp(in * scale) + kept, sum(in, 0)};
  });
  return step.lower(x, Array(2.0f)).compile().serialize();
}

/// What tells which build and processor an executable is for.
std::size_t size_of_purpose(std::string_view body) {
  ByteReader in(body, "a seed");
  std::size_t size = 0;
  for (int n = 0; n < 4; ++n) size += sizeof(std::int64_t) + in.view().size();
  return size + sizeof(std::int64_t);
}

/// What the parts that are not tried stand beside.
struct Frame {
  std::string purpose, function, executable;
  Frame() {
    const std::string plain =
        stored_module("HloModule m\nENTRY e { ROOT p = f32[4] parameter(0) }\n");
    const std::string_view body = compiler::unseal(plain, "a seed");
    purpose = body.substr(0, size_of_purpose(body));
    const std::string stored = stored_function();
    const std::string_view whole = compiler::unseal(stored, "a seed");
    // The executable is the last text.
    const std::size_t at = whole.rfind(compiler::kStoredMagic);
    executable = whole.substr(at);
    function = whole.substr(0, at - sizeof(std::int64_t));
  }
};

const Frame& frame() {
  static const Frame& it = *new Frame;
  return it;
}

void write(const std::string& folder, std::size_t number, std::string_view kind,
           std::string_view body) {
  std::ofstream(folder + "/" + std::string(kind) + std::to_string(number), std::ios::binary)
      << kind << body;
}

void write_seeds(const std::string& folder, int count, char** files) {
  write(folder, 0, kFunction, frame().function);
  for (int n = 0; n < count; ++n) {
    std::stringstream text;
    text << std::ifstream(files[n], std::ios::binary).rdbuf();
    try {
      const std::string bytes = stored_module(text.str());
      const std::string_view body = compiler::unseal(bytes, "a seed");
      write(folder, std::size_t(n), kExecutable, body.substr(size_of_purpose(body)));
    } catch (const Error&) {  // not each can be compiled, or stored
    }
  }
}

void read(std::string_view kind, const std::string& body) {
  if (kind == kFunction) {
    ByteWriter inner;
    inner.text(frame().executable);
    const std::string bytes = compiler::seal(body + inner.take());
    accepts([&] { (void)frontend::load_program(bytes, {}, Location{}, /*virtually=*/true); });
  } else {
    const std::string bytes = compiler::seal(frame().purpose + body);
    accepts([&] { (void)compiler::load_executable(bytes); });
  }
}

}  // namespace
}  // namespace tessera::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  // Plans are checked, too; a function is on four devices.
  setenv("TESSERA_VERIFY", "1", 1);
  setenv("TESSERA_NUM_DEVICES", "4", 1);
  constexpr std::string_view kSeeds = "--seeds=";
  if (*argc > 1 && std::string_view((*argv)[1]).starts_with(kSeeds)) {
    tessera::fuzz::write_seeds((*argv)[1] + kSeeds.size(), *argc - 2, *argv + 2);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // A copy of just these bytes, so that none behind them is read unnoticed.
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  tessera::fuzz::read(bytes.substr(0, 1), bytes.substr(1));
  return 0;
}
