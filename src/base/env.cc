// SPDX-License-Identifier: Apache-2.0
// The table of TESSERA_* environment variables, and their parsing and validation.
#include "src/base/env.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include <tessera/error.h>

#include "src/base/check.h"
#include "src/base/contains.h"
#include "src/base/log.h"

extern char** environ;  // NOLINT: POSIX leaves the declaration to the program

namespace tessera {

const std::vector<EnvVariable>& env_table() {
  // Never destroyed, as programs may still run when static objects are.
  static const auto& table = *new const std::vector<EnvVariable>{
      {"TESSERA_NUM_DEVICES", "integer", "8", "virtual CPU devices of this process", 1,
       kMaxDevices},
      {"TESSERA_PLATFORM", "text", "cpu",
       "the platform of the devices that programs run on if they don't say where"},
      {"TESSERA_PJRT_PLUGINS", "text", "none",
       "PJRT plugins by the names that their platforms get, as `cuda=/path/plugin.so,b=/b.so`; "
       "each "
       "may have options: `cuda=/plugin.so?memory_fraction=0.5?preallocate=false`"},
      {"TESSERA_ENGINE", "choice:auto|in_process|mpi", "auto",
       "whether this process is one of several that run the program together, connected by MPI: as "
       "the launcher (mpirun, srun) says, never, or always"},
      {"TESSERA_EXCHANGE_TIMEOUT", "integer", "300",
       "seconds that a process waits for another one, before all end with an error", 1,
       kMaxTimeout},
      {"TESSERA_SINGLE_COPY", "flag", "1",
       "let processes of one machine read what others send from their memory, where the system "
       "permits it"},
      {"TESSERA_NUM_THREADS", "integer", "the cores that the process may use",
       "workers that compute", 1, kMaxThreads},
      {"TESSERA_BIND_WORKERS", "flag", "1",
       "keep each worker on a core of its own, if there are as many workers as cores"},
      {"TESSERA_FLUSH_SUBNORMALS", "flag", "0; 1 in the plugin for JAX",
       "take numbers below the smallest normal one for zeros in whole programs, as other compilers "
       "do on CPUs"},
      {"TESSERA_LOG", "choice:debug|info|warning|error|off", "warning",
       "the least severe level that is written to stderr"},
      {"TESSERA_PROGRESS", "choice:auto|on|off", "auto",
       "tell on stderr how far compilations and checkpoints are that take long"},
      {"TESSERA_EXPLAIN_CACHE_MISSES", "flag", "0",
       "say why a jitted function is traced and compiled again"},
      {"TESSERA_CHECK_REPLICAS", "flag", "0",
       "check that the copies of a replicated input hold the same bits"},
      {"TESSERA_FULL_GATHER", "choice:warn|error|off|allow", "warn",
       "what to do about a reshard that gathers an entire array on each device"},
      {"TESSERA_EVALUATOR_OPS", "choice:allow|error", "allow",
       "what to do about a program with operations that have no kernel, and so run slowly on the "
       "reference evaluator"},
      {"TESSERA_LAYOUTS", "choice:propagated|solved", "solved",
       "how intermediate arrays are sharded in programs that don't state it: by propagation of the "
       "annotations alone, or by a solver for the cheapest program"},
      {"TESSERA_MEMORY_BUDGET", "integer", "a quarter more than the propagated program",
       "bytes that one device may hold in a program whose shardings are solved for", 1, kMaxBytes},
      {"TESSERA_NETWORK", "text", "one on which bytes received decide",
       "the machine that layouts and reshards are chosen for, as `data=50GB/s:1us, *=100GB/s, "
       "start=5us, flops=200T, memory=1.5TB/s`, or a file that says so"},
      {"TESSERA_WINDOW_DOTS_FROM", "integer", "67108864",
       "bytes from which an array is not gathered for a dot, nor a dot's full result held to be "
       "scattered: the parts are sent around a ring of devices",
       0, kMaxBytes},
      {"TESSERA_JIT", "choice:auto|always|off", "auto",
       "which kernels are compiled for this machine: those that run long enough, all, or none; the "
       "others are interpreted"},
      {"TESSERA_MAX_ISA", "choice:baseline|avx2|avx512", "avx512",
       "the largest set of vector instructions that kernels use, of those that the processor has"},
      {"TESSERA_TIERED_COMPILATION", "choice:on|off|quick", "on",
       "whether kernels that are compiled get quick code at first, which optimized code replaces "
       "when it has been made in the background; off: optimized code at once; quick: it stays"},
      {"TESSERA_CACHE_DIR", "path", "tessera in $XDG_CACHE_HOME, or in ~/.cache",
       "folder that keeps compiled kernels; off: none are kept"},
      {"TESSERA_VERIFY", "flag", "0",
       "check each compiled module after every stage of the compiler"},
      {"TESSERA_DUMP_TO", "path", "",
       "folder that gets each compiled module, stage by stage; "
       "created if its parent exists"},
  };
  return table;
}

namespace {

const EnvVariable& entry(const char* name) {
  for (const EnvVariable& v : env_table()) {
    if (std::strcmp(v.name, name) == 0) return v;
  }
  internal::check_failed(__FILE__, __LINE__, "the variable is in env_table()", name);
}

std::vector<std::string> choices(const EnvVariable& v) {
  std::vector<std::string> out;
  std::string type = v.type;
  if (type.rfind("choice:", 0) != 0) return out;
  std::size_t begin = std::strlen("choice:");
  while (begin <= type.size()) {
    std::size_t end = std::min(type.find('|', begin), type.size());
    out.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& valid) {
  throw ValueError("environment variable " + std::string(name) + " is '" + value +
                   "'; valid: " + valid);
}

std::optional<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t v = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return v;
}

std::optional<bool> parse_flag(std::string text) {
  for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  return std::nullopt;
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = up;
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> env_text(const char* name) {
  entry(name);
  const char* v = std::getenv(name);
  if (v == nullptr || *v == '\0') return std::nullopt;
  return std::string(v);
}

std::optional<std::int64_t> env_integer(const char* name, std::int64_t min, std::int64_t max) {
  const auto text = env_text(name);
  if (!text) return std::nullopt;
  const auto v = parse_integer(*text);
  if (!v || *v < min || *v > max) {
    refuse(name, *text, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return v;
}

bool env_flag(const char* name, bool fallback) {
  const auto text = env_text(name);
  if (!text) return fallback;
  const auto v = parse_flag(*text);
  if (!v) refuse(name, *text, "0 or 1");
  return *v;
}

std::optional<std::string> env_choice(const char* name) {
  const auto text = env_text(name);
  if (!text) return std::nullopt;
  const std::vector<std::string> valid = choices(entry(name));
  if (!contains(valid, *text)) {
    std::string list;
    for (const std::string& c : valid) list += (list.empty() ? "" : ", ") + c;
    refuse(name, *text, list);
  }
  return text;
}

void check_environment() {
  static auto& mutex = *new std::mutex;
  static auto& warned = *new std::set<std::string>;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    if (std::strncmp(*e, "TESSERA_", 8) != 0) continue;
    const std::string text = *e;
    const std::string name = text.substr(0, text.find('='));
    const EnvVariable* known = nullptr;
    const EnvVariable* nearest = nullptr;
    std::size_t best = 0;
    for (const EnvVariable& v : env_table()) {
      const std::size_t distance = edit_distance(name, v.name);
      if (distance == 0) known = &v;
      if (nearest == nullptr || distance < best) nearest = &v, best = distance;
    }
    if (known == nullptr) {
      std::lock_guard lock(mutex);
      if (warned.insert(name).second) {
        // A known name that differs in most of its letters is unlikely to be the intended one.
        const std::size_t own = name.size() - std::strlen("TESSERA_");
        const bool near = best <= std::max<std::size_t>(1, own / 3);
        std::string all;
        for (const EnvVariable& v : env_table())
          all += (all.empty() ? "" : ", ") + std::string(v.name);
        log_warning(
            "unknown environment variable " + name + " is ignored; " +
            (near ? "did you mean " + std::string(nearest->name) + "?" : "there are " + all));
      }
      continue;
    }
    const std::string type = known->type;
    if (type == "integer") {
      env_integer(known->name, known->least, known->most);
    } else if (type == "flag") {
      env_flag(known->name, false);
    } else if (type != "path" && type != "text") {
      env_choice(known->name);
    }
  }
}

}  // namespace tessera
